"""The cross entropy of a softmax over the vocabulary, without a second copy of the logits.

Axes: n predictions, e embedding, v token ids.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

CPU_CHUNK = 2**19  # logits at once in fp32: 2 MB, about the size of a core's second cache
GPU_CHUNK = 2**27
CPU_MULTIPLE = 1
GPU_MULTIPLE = 128  # rows of logits begin on 128 bytes or more, as the fastest products need them


def vocabulary_loss(
    x_ne: torch.Tensor,
    table_ve: torch.Tensor,
    bias_v: torch.Tensor,
    targets_n: torch.Tensor,
    tokens: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """-log softmax(x table^T + bias)[target] in fp32 (n,), and whether the target is on top (n,).

    ``x`` and ``table`` are in the compute dtype; products come out in it, sums and exponentials are
    in fp32. If only the first ``tokens`` entries are such, they are on top where none of them is
    above. A compiler fuses the plain form itself; otherwise the logits are turned into their own
    gradient chunk by chunk, which takes little more time than the matrix products.
    """
    on_gpu = x_ne.device.type == "cuda"
    table_ve, bias_v = _padded(table_ve, bias_v, GPU_MULTIPLE if on_gpu else CPU_MULTIPLE)
    if torch.compiler.is_compiling():
        logits_nv = F.linear(x_ne, table_ve).float() + bias_v.float()
        losses_n = F.cross_entropy(logits_nv, targets_n, reduction="none")
        return losses_n, _best(logits_nv, targets_n, tokens) == targets_n
    losses_n, hits_n = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
        x_ne, table_ve, bias_v, targets_n, tokens
    )
    return losses_n, hits_n


def _best(logits_nv: torch.Tensor, targets_n: torch.Tensor, tokens: int) -> torch.Tensor:
    """The highest entry (n,); beside a token the highest token."""
    best_n = logits_nv.argmax(1)
    if not tokens:
        return best_n
    return torch.where(targets_n < tokens, logits_nv[:, :tokens].argmax(1), best_n)


def _padded(
    table_ve: torch.Tensor, bias_v: torch.Tensor, multiple: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both with rows up to a multiple, for tokens whose probability is exactly 0."""
    extra = -len(bias_v) % multiple
    if not extra:
        return table_ve, bias_v
    return F.pad(table_ve, (0, 0, 0, extra)), F.pad(bias_v, (0, extra), value=-math.inf)


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ne: torch.Tensor,
        table_ve: torch.Tensor,
        bias_v: torch.Tensor,
        targets_n: torch.Tensor,
        tokens: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logits_nv = F.linear(x_ne, table_ve)
        losses_n = torch.empty(len(x_ne), device=x_ne.device)
        hits_n = torch.empty_like(targets_n, dtype=torch.bool)
        differentiated = any(ctx.needs_input_grad)
        bias_v = bias_v.float()
        whole = CPU_CHUNK if x_ne.device.type == "cpu" else GPU_CHUNK
        rows = max(1, whole // len(bias_v))
        for start in range(0, len(x_ne), rows):
            part = slice(start, start + rows)
            target_n1 = targets_n[part, None]
            z_nv = logits_nv[part].float() + bias_v
            top_n1, best_n1 = z_nv.max(1, keepdim=True)
            if tokens:
                best_n1 = _best(z_nv, target_n1[:, 0], tokens)[:, None]
            hits_n[part] = (best_n1 == target_n1)[:, 0]
            right_n1 = z_nv.gather(1, target_n1)
            z_nv.sub_(top_n1).exp_()
            total_n1 = z_nv.sum(1, keepdim=True)
            losses_n[part] = (total_n1.log() + top_n1 - right_n1)[:, 0]
            if differentiated:
                z_nv.mul_(total_n1.reciprocal())
                z_nv.scatter_add_(1, target_n1, torch.full_like(right_n1, -1.0))
                logits_nv[part] = z_nv
        ctx.save_for_backward(x_ne, table_ve, logits_nv if differentiated else None)
        ctx.mark_non_differentiable(hits_n)
        return losses_n, hits_n

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, upstream_n: torch.Tensor, _: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        # softmax - one-hot of each prediction, not yet scaled: the scale goes to the small factor.
        x_ne, table_ve, slope_nv = ctx.saved_tensors
        scale_n1 = upstream_n[:, None].to(slope_nv.dtype)
        x_grad_ne = (slope_nv @ table_ve) * scale_n1
        table_grad_ve = slope_nv.t() @ (x_ne * scale_n1)
        bias_grad_v = (slope_nv.t() @ scale_n1)[:, 0]
        return x_grad_ne, table_grad_ve, bias_grad_v, None, None
