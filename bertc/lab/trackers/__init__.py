"""Trackers: figures of runs sent to TensorBoard, W&B and MLflow by their own libraries."""
