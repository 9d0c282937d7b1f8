"""Trackers: figures of runs sent to TensorBoard, W&B, MLflow and trackio by their own libraries."""
