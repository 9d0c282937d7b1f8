"""What CUDA, its libraries and its kernels hold beside the tensors of a step; docs/estimates.md.

From the sources of torch 2.13 and FlashAttention 2; none of it was measured on a device.
"""

MIB, GIB = 2**20, 2**30
CONTEXT_BYTES = GIB // 2
"""Of a process: kernels and stacks. The allocator does not see it."""
NCCL_BYTES = GIB
"""Of each of several processes: buffers for the messages of all links."""
CUBLAS_BYTES = 32 * MIB
"""Its workspace, as CUBLAS_WORKSPACE_CONFIG=:4096:8 says, out of the allocator's memory."""
