"""A trained model in use: filling masks, predicting, vectors, previews of batches."""
