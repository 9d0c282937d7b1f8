"""Update rules on lists of tensors, gradient norms and clipping."""
