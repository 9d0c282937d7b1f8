"""Trackers: figures of runs sent to TensorBoard, W&B, MLflow and trackio. Loads no torch."""
