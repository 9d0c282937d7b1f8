"""What a network learns: objectives, tasks, answers, optimisers."""
