#!/bin/bash
#SBATCH --job-name=bert-large
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --time=8:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=bert-large-%j.log
#SBATCH --signal=B:TERM@120

# For sbatch, where the paths of the spec begin, with the environment of bertc active.
# The run folder, the text and the cache ($BERTC_CACHE) are to lie on a disk that all machines see.
set -u
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((10000 + SLURM_JOB_ID % 50000))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=120

# One torchrun a machine, one process a GPU. --resume begins a run where there is none yet.
srun --kill-on-bad-exit=1 torchrun \
    --nnodes=4 --nproc-per-node=8 --max-restarts=0 \
    --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d --rdzv-endpoint="$head_node:$port" \
    -m bertc.cli train bert-large --set seed=3 --resume &
step=$!

# Preempted or out of time: srun passes the signal on, the run saves and stops, and the job waits
# for its next turn.
stopped=
trap 'stopped=yes; kill -TERM "$step"' TERM
wait "$step"
code=$?
if [ -n "$stopped" ]; then
    wait "$step"
    code=$?
    if [ "$code" -ne 0 ]; then
        scontrol requeue "$SLURM_JOB_ID"
        exit 0
    fi
fi
exit "$code"
