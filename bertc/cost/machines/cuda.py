"""Memory held by CUDA, its libraries and kernels outside the tensors of a step (docs/estimates.md).

Read from the sources of torch 2.13 and FlashAttention 2, not measured on a device.
"""

MIB, GIB = 2**20, 2**30
CONTEXT_BYTES = GIB // 2
"""CUDA context per process (kernels and stacks), outside torch's allocator."""
NCCL_BYTES = GIB
"""NCCL buffers per process when several share a run."""
CUBLAS_BYTES = 32 * MIB
"""cuBLAS workspace (CUBLAS_WORKSPACE_CONFIG=:4096:8), taken from torch's allocator."""
