"""The paper's table and figures: `coterie reproduce`, and the same from Python. All of it is classification,
measured by accuracy.

iot.toml, emnist.toml   the paper's two experiments
targets.toml            what each table and figure changes in them, and what --quick changes
readings.toml           KD-PDFL's options in each reading of the paper
regimes.toml            how clients differ in each regime, and what tuning chose there
paper.toml              Table I as printed

settings         these files as experiments
available_data   which data sets are there
statistics       KD-PDFL against the others, paired over seeds
table1, fig3, fig4, fig5, regimes   from runs to numbers, tables and pictures
reproduction     all of it in order, resumed where it stopped
"""
