"""Vectors of texts, and losses of how alike they are.

Axes: b rows, s positions, h hidden; m examples, t texts of an example, d numbers of a vector, c
candidates, q queries, p some of them, k tokens. Several vectors of a text have an axis k before d,
and are 0 where there is no token. Of sparse vectors d is v, a number for each token id.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bertc.ir.blocks import SOFT_TARGETS, TOKEN_PAIRS
from bertc.ir.learning import Embed
from bertc.ir.learning.pooling import OneVector, SparseVectors, TokenVectors
from bertc.learn.objectives.term import Predicted, table_of
from bertc.model import BodyModule, TokenHead, gather_positions

QUERIES_AT_ONCE, DOCUMENTS_AT_ONCE = 256, 1024
"""Texts of a search that are compared at once."""


def pooled(
    pooling: OneVector,
    states_bsh: Float[Tensor, "b s h"],
    real_bs: Bool[Tensor, "b s"],
    maps: Iterable[nn.Module] = (),
) -> Float[Tensor, "b d"]:
    """A vector in fp32 for each row, of the states of its real tokens, after ``maps``."""
    match pooling:
        case "cls":
            vectors = states_bsh[:, 0].float()
        case "mean":
            sums_bh = _real(states_bsh, real_bs, 0.0).sum(1)
            vectors = sums_bh / real_bs.sum(1, keepdim=True).clamp(min=1)
        case "last":
            places_bs = torch.arange(real_bs.shape[1], device=real_bs.device)
            last_b = torch.where(real_bs, places_bs, 0).amax(1)
            vectors = gather_positions(states_bsh, last_b[:, None])[:, 0].float()
        case "max":
            vectors = _real(states_bsh, real_bs, -torch.inf).amax(1)
    for linear in maps:
        vectors = linear(vectors)
    return vectors


def _real(states_bsh: Tensor, real_bs: Tensor, padding: float) -> Tensor:
    """States with another value at padding."""
    return states_bsh.float().masked_fill(~real_bs[..., None], padding)


def term_weights(
    states_bsh: Float[Tensor, "b s h"],
    real_bs: Bool[Tensor, "b s"],
    head: nn.Module,
    net: BodyModule,
) -> Float[Tensor, "b v"]:
    """log(1 + the highest score) of each token id at real tokens, 0 if it is negative (SPLADE v2).

    Some rows are scored at a time, and of scores the places of the highest are kept.
    """
    assert isinstance(head, TokenHead), "the checks allow no other head of a masked LM"
    features_bse, table_ve = head(states_bsh), table_of(net, head)
    # Padding scores as the first token does, which costs no copy of the scores.
    features_bse = torch.where(real_bs[..., None], features_bse, features_bse[:, :1])
    table_ve, bias_v = (x.to(features_bse.dtype) for x in (table_ve, head.bias_of(table_ve)))
    at_once, row = SOFT_TARGETS[states_bsh.device.type != "cpu"], len(table_ve) * real_bs.shape[1]
    parts = torch.split(features_bse, max(1, at_once // row))
    highest_bv = torch.cat([F.linear(part, table_ve, bias_v).max(1).values for part in parts])
    return highest_bv.float().relu().log1p() * real_bs.any(1, keepdim=True)


def by_example(vectors_bd: Float[Tensor, "b *k d"], texts: int) -> Float[Tensor, "m t *k d"]:
    """The vectors of rows by example, whose rows stand side by side."""
    return vectors_bd.view(-1, texts, *vectors_bd.shape[1:])


def as_long(vectors_mtkd: Float[Tensor, "m t k d"], tokens: int) -> Tensor:
    """Vectors of tokens with absent ones at the end, up to a number of tokens."""
    return F.pad(vectors_mtkd, (0, 0, 0, tokens - vectors_mtkd.shape[2]))


def related_losses(
    task: Embed, vectors_mtd: Float[Tensor, "m t *k d"], scores_mt: Tensor | None, over: float = -1
) -> Predicted:
    """Losses (m,) of examples that are all there are: by ``task.loss`` of scores, else InfoNCE.

    With ``widths`` they are means over these prefixes of the vectors (Kusupati et al. 2022). A hit
    is an example whose positive is nearest, by the widest. Sparse vectors add what keeps them so,
    in training, where ``over`` is the share of the steps made; elsewhere it is below 0.
    """
    widths = task.widths or (vectors_mtd.shape[-1],)
    prefixes = (compared(task, vectors_mtd[..., :width]) for width in widths)
    parts = [_losses(task, *texts, scores_mt) for texts in prefixes]
    if over >= 0 and isinstance(task.pooling, SparseVectors):
        of_kinds = vectors_mtd[:, :1], vectors_mtd[:, 1:]
        flops = (texts.flatten(0, 1).mean(0).square().sum() for texts in of_kinds)
        added = sum(f * flop for f, flop in zip(task.pooling.factors(over), flops, strict=True))
        return parts[0]._replace(losses=parts[0].losses + added)
    if len(parts) == 1:
        return parts[0]
    return Predicted(torch.stack([part.losses for part in parts]).mean(0), parts[0].hits)


def compared(task: Embed, vectors_mtd: Float[Tensor, "m t *k d"]) -> tuple[Tensor, Tensor]:
    """Vectors of queries (m, ...) and of other texts (m, t-1, ...), of length 1 for cosines."""
    if task.similarity == "cosine":
        vectors_mtd = F.normalize(vectors_mtd, dim=-1)
    queries_md = vectors_mtd[:, 0]
    if isinstance(task.pooling, TokenVectors):
        queries_md = queries_md[:, : task.pooling.query]
    return queries_md, vectors_mtd[:, 1:]


def likeness_of_all(
    queries_qd: Float[Tensor, "q *k d"], texts_cd: Float[Tensor, "c *k d"]
) -> Float[Tensor, "q c"]:
    """Similarities of all queries with all texts: dot products, or MaxSim of several vectors."""
    if texts_cd.is_sparse:
        by_text_cq: Tensor = torch.sparse.mm(texts_cd, queries_qd.to_dense().T.contiguous())
        return by_text_cq.T
    if queries_qd.dim() == 2:
        return queries_qd @ texts_cd.T
    at_once, row = TOKEN_PAIRS[queries_qd.device.type != "cpu"], texts_cd[..., 0].numel()
    parts = torch.split(queries_qd, max(1, at_once // (row * queries_qd.shape[1])))
    return torch.cat([_max_sim("pkd,zcld->pckl", part, texts_cd[None]) for part in parts])


def likeness_of_lists(
    queries_md: Float[Tensor, "m *k d"], texts_mcd: Float[Tensor, "m c *k d"]
) -> Float[Tensor, "m c"]:
    """Similarities of each query with the texts of its example."""
    if queries_md.dim() == 2:
        return (queries_md[:, None] * texts_mcd).sum(2)
    return _max_sim("mkd,mcld->mckl", queries_md, texts_mcd)


def _max_sim(axes: str, queries: Tensor, texts: Tensor) -> Tensor:
    """Sums over tokens of queries of the highest product with a token that is there.

    A token of a query that is absent is 0, and so are its products.
    """
    products = torch.einsum(axes, queries, texts)
    absent = ~texts.any(-1)[:, :, None]
    # The index of the maximum is kept for backward alone, not the products.
    return products.masked_fill_(absent, -torch.inf).max(-1).values.sum(-1)


def search(
    task: Embed, queries: Sequence[Tensor], documents: Sequence[Tensor]
) -> Iterator[Float[Tensor, "p c"]]:
    """Similarities of some queries at a time with all documents, by the vectors of each text.

    A text has a vector (d,), perhaps a sparse tensor, or one for each of its tokens (k, d).
    """

    def units(texts: Sequence[Tensor]) -> Tensor:
        if texts[0].is_sparse:
            return torch.stack([*texts])
        vectors = pad_sequence([*texts], batch_first=True)
        return F.normalize(vectors, dim=-1) if task.similarity == "cosine" else vectors

    places = range(0, len(documents), DOCUMENTS_AT_ONCE)
    for first in range(0, len(queries), QUERIES_AT_ONCE):
        part = units(queries[first : first + QUERIES_AT_ONCE])
        blocks = (units(documents[place : place + DOCUMENTS_AT_ONCE]) for place in places)
        yield torch.cat([likeness_of_all(part, block) for block in blocks], dim=1)


def _losses(
    task: Embed, queries_md: Tensor, texts_mcd: Tensor, scores_mt: Tensor | None
) -> Predicted:
    if scores_mt is None:
        return info_nce(queries_md, texts_mcd, task.temperature, both=task.both)
    likeness_mc = likeness_of_lists(queries_md, texts_mcd) / task.temperature
    if task.loss == "order":
        return cosent(likeness_mc[:, 0], scores_mt[:, 0])
    both = likeness_mc, scores_mt[:, 1:]  # of this network, of a teacher
    if task.loss == "margin":  # of the positive's lead over negatives (Hofstaetter et al. 2020)
        leads_mc, told_leads_mc = (x[:, :1] - x[:, 1:] for x in both)
        losses_m = (leads_mc - told_leads_mc).square().mean(1)
    else:
        own_mc, told_mc = (x.log_softmax(1) for x in both)
        losses_m = F.kl_div(own_mc, told_mc, reduction="none", log_target=True).sum(1)
    return Predicted(losses_m, likeness_mc.argmax(1) == 0)


def info_nce(
    queries_md: Float[Tensor, "m *k d"],
    texts_mcd: Float[Tensor, "m c *k d"],
    temperature: float,
    *,
    both: bool,
) -> Predicted:
    """Cross entropy (m,) of each positive, the first text, among the texts of all examples.

    They are the positives and the negatives of all (Gao et al. 2021, equation 5). With ``both`` its
    mean with that of each query among those of all, for a positive.
    """
    candidates_cd = texts_mcd.transpose(0, 1).flatten(0, 1)
    scores_mc = likeness_of_all(queries_md, candidates_cd) / temperature
    right_m = torch.arange(len(scores_mc), device=scores_mc.device)
    losses_m = F.cross_entropy(scores_mc, right_m, reduction="none")
    if both:
        back_mm = scores_mc[:, : len(scores_mc)].T
        losses_m = (losses_m + F.cross_entropy(back_mm, right_m, reduction="none")) / 2
    return Predicted(losses_m, scores_mc.argmax(1) == right_m)


def cosent(likeness_m: Float[Tensor, "m"], scores_m: Float[Tensor, "m"]) -> Predicted:
    """CoSENT (Su 2022): log(1 + sum of exp(similarity of i - that of j)) of pairs of texts.

    The sum is over the pairs of which j has the higher score. It is one loss of all examples, which
    each has (m,), so that it is their mean; none of them is right or wrong.
    """
    differences_mm = likeness_m[:, None] - likeness_m
    lower_mm = scores_m[:, None] < scores_m
    wrong = differences_mm.masked_fill(~lower_mm, -torch.inf).flatten()
    loss = torch.cat([wrong.new_zeros(1), wrong]).logsumexp(0)
    return Predicted(loss.expand(len(scores_m)), torch.zeros_like(scores_m).bool())
