# What somebody does first who has installed the wheel: whatever needs a file that the wheel must bring along.
set -ex
coterie --version
coterie ls algorithms > /dev/null
python -m coterie explain DataError
coterie check hospitals                  # a preset, and data that are shipped
coterie run quickstart --seeds 1
coterie report runs/quickstart           # the page's scripts and styles
python start.py
coterie ca init trial                    # the extra `peer`
