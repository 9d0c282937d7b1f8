"""A trained model in use: filling masks, predicting, evaluating, previews of batches."""
