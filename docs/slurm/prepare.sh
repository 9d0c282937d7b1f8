#!/bin/bash
# bash prepare.sh SPEC TO PARTS [options of sbatch]: prepares the text of a spec by an array of jobs.
# The first job learns the vocabulary, then the others run at once, and a last one writes the
# manifest. Submitted again they make what is missing. Slurm refuses arrays above MaxArraySize.
set -eu
spec=$1 to=$2 parts=$3
submit() { sbatch --parsable --job-name=bertc-prepare --kill-on-invalid-dep=yes "$@"; }
share="bertc prepare $(printf '%q' "$spec") --to $(printf '%q' "$to")"
job=$(submit "${@:4}" --wrap="$share --part 1/$parts")
if [ "$parts" -gt 1 ]; then
    job=$(submit "${@:4}" --dependency=afterok:"${job%%;*}" --array=2-"$parts" \
        --wrap="$share --part \"\$SLURM_ARRAY_TASK_ID\"/$parts")
fi
submit "${@:4}" --dependency=afterok:"${job%%;*}" \
    --wrap="bertc prepare --to $(printf '%q' "$to") --finish"
