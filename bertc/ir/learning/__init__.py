"""Training targets and update rules: objectives, tasks, answers, optimisers."""
