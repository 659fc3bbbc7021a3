import sys, os, time, torch; torch.set_num_threads(1)
from coterie import run
from coterie.studies.leaderboard.columns import columns, size
c = columns([sys.argv[1]], None, size(False))[0]
e = c.experiment({m: {"name": m} for m in ("Local","KD-PDFL")}, [100, 101], "cpu").replace(train__iterations=60)
t=time.process_time(); r = run(e, plots=False, progress=False, out=f"/tmp/sci/runs/spd-{os.getpid()}"); print(sys.argv[1], time.process_time()-t)
