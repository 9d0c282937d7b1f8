"""Networks as ONNX graphs: tracing, quantising, running, and the folder that holds them."""
