"""Settings and kinds of the language, with their arguments: ``python -m tests.typed``."""

from typing import TypedDict

from bertc.api.words import Value, Words

class SettingValues(TypedDict, total=False):
    """The settings, and the letters of the papers, as keywords of ``Spec``."""

    lr: Value
    """the learning rate of the optimizer"""
    body: Value
    """what the states are computed with"""
    layers: Value
    """number of layers"""
    L: Value
    """number of layers"""
    hidden: Value
    """width of the residual stream"""
    H: Value
    """width of the residual stream"""
    heads: Value
    """attention heads, one number or one per layer"""
    A: Value
    """attention heads, one number or one per layer"""
    head_dim: Value
    """width of one head"""
    ffn: Value
    """inner width of the feed-forward part, one or one per layer; or own(...)"""
    F: Value
    """inner width of the feed-forward part, one or one per layer; or own(...)"""
    embedding: Value
    """width of the embedding tables"""
    E: Value
    """width of the embedding tables"""
    table: Value
    """token embeddings: of one width, or narrower for rare tokens"""
    share: Value
    """which layers share their weights"""
    attention: Value
    """kind of attention"""
    activation: Value
    """activation of feed-forward parts, gated or not, and of heads"""
    norm: Value
    """placement of the norms; their `function` is `layer`, `rms` or `tanh`"""
    residual: Value
    """what parts read of what was computed before"""
    causal: Value
    """whether tokens attend to earlier ones alone; auto: where each predicts the next"""
    positions: Value
    """position embeddings"""
    segments: Value
    """token types"""
    languages: Value
    """languages of the language embeddings"""
    language_embeddings: Value
    """an embedding for each of the languages"""
    pooler: Value
    """dense + tanh over the first token; or ReLU, both, GELU, or the layers of a masked-LM head, of it or of the mean of all"""
    head: Value
    """the head over the vocabulary"""
    dropout: Value
    """dropout rates in training"""
    initializer: Value
    """initial weights"""
    vocab: Value
    """the vocabulary"""
    V: Value
    """the vocabulary"""
    generator: Value
    """source of the replaced tokens that rtd detects"""
    adapt: Value
    """small maps that are trained in place of the network, which is frozen"""
    objective: Value
    """what to learn: a sum of terms"""
    task: Value
    """what to learn: a sum of terms"""
    data: Value
    """the text: a sum of sources"""
    smoothing: Value
    """languages are sampled in proportion to (their share of the text)^smoothing"""
    mixing: Value
    """mixing of languages: row by row, or batch by batch"""
    format: Value
    """how text becomes examples"""
    pack: Value
    """several examples in a row of seq tokens, each attending to itself only"""
    memory: Value
    """earlier tokens of a stream whose states every layer attends to, in training"""
    teacher: Value
    """trained networks that terms of distillation (kd) learn from, a sum"""
    augment: Value
    """changed copies of a task's training examples, a sum: 20*edit(...)"""
    optimizer: Value
    """update rule and learning rate"""
    average: Value
    """mean of weights that a stage is evaluated, exported and handed on with"""
    prune: Value
    """heads or neurons that a stage removes, at once or in steps"""
    freeze: Value
    """number of lowest layers that are not trained, nor the embeddings, or those alone; positions: their table alone; all: the whole network, read without dropout"""
    patience: Value
    """evaluations without a better score that end a task, with its best weights; 0: never"""
    steps: Value
    """optimiser steps, text to read (2G tokens, 10 epochs, 100M words), time to train (24h), or a budget to use up (equal(1e18 flops))"""
    batch: Value
    """examples per step"""
    B: Value
    """examples per step"""
    seq: Value
    """tokens per row"""
    S: Value
    """tokens per row"""
    microbatch: Value
    """examples computed at once; 0: as many as fit"""
    grow: Value
    """initial weights of a network with more layers than before"""
    epochs: Value
    """passes over the examples of a task, in place of steps"""
    features: Value
    """layers whose states the head of a task reads"""
    batch_warmup: Value
    """batches of fewer examples at first"""
    init: Value
    """initial weights of a run"""
    recipe: Value
    """system whose fine-tuning settings a task takes; with init that system"""
    layout: Value
    """Hugging Face layout of a fine-tuned network, if BERT's fits too"""
    holdout: Value
    """fraction of the documents held out for evaluation"""
    clean: Value
    """documents that are read: long enough, of letters, each once, ..."""
    seed: Value
    """the seed of every random choice"""
    save_every: Value
    """steps between checkpoints"""
    eval_every: Value
    """steps between evaluations"""
    log_every: Value
    """steps between log lines"""
    eval_examples: Value
    """maximum held-out examples per evaluation"""
    keep: Value
    """number of checkpoints kept, the newest, or all"""
    log: Value
    """trackers that get the metrics too, one or a list: [tensorboard, wandb]"""
    precision: Value
    """arithmetic; auto: bf16 where the hardware has it"""
    compile: Value
    """torch.compile; auto: on a GPU"""
    recompute: Value
    """save only the inputs of layers for backward; auto: if memory is short"""
    device: Value
    """device; auto: cuda, else cpu"""
    deterministic: Value
    """deterministic sums on a GPU, at a cost; on a CPU they always are"""
    strategy: Value
    """sharding over several processes; auto: none if all fits"""
    save_at: Value
    """steps, or words, whose checkpoints stay"""

def adam(
    lr: Value = ..., *, warmup: Value = ..., schedule: Value = ..., decay: Value = ..., decay_exempt: Value = ..., clip: Value = ..., clip_per: Value = ..., betas: Value = ..., eps: Value = ..., bias_correction: Value = ..., decoupled: Value = ..., layer_decay: Value = ..., gradient_decay: Value = ...
) -> Words:
    """Adam with decay apart from the gradient; uncorrected, it is BERT's AdamWeightDecay."""


def adamw(
    lr: Value = ..., *, warmup: Value = ..., schedule: Value = ..., decay: Value = ..., decay_exempt: Value = ..., clip: Value = ..., clip_per: Value = ..., betas: Value = ..., eps: Value = ..., bias_correction: Value = ..., decoupled: Value = ..., layer_decay: Value = ..., gradient_decay: Value = ...
) -> Words:
    """Adam with decay apart from the gradient; uncorrected, it is BERT's AdamWeightDecay."""


def adaptive(
    every: Value = ..., smooth: Value = ...
) -> Words:
    """Single tokens, those more often whose type is predicted right less often."""


def alibi(
    
) -> Words:
    """A bias of scores: minus the distance between query and key, times a slope of each head."""


def all(
    
) -> Words:
    """One layer, applied again and again (ALBERT 3.1, the default)."""


def attention(
    
) -> Words:
    """Attention is shared, the FFN is not (ALBERT 4.5, shared-attention)."""


def balanced(
    smoothing: Value = ...
) -> Words:
    """Weights by the training file: examples / (classes x examples of the class)."""


def batches(
    translations: Value = ..., *, both_orders: Value = ...
) -> Words:
    """Batches of one language, or of one translation direction (XLM trainer.py, mlm_step)."""


def bilstm(
    hidden: Value = ..., layers: Value = ...
) -> Words:
    """A BiLSTM over all tokens of an example, then a linear layer."""


def blocks(
    
) -> Words:
    """Running text in blocks of equal length, which start and end anywhere (XLM dataset.py)."""


def bpe(
    size: Value = ..., *, smoothing: Value = ..., digits: Value = ..., multiple: Value = ...
) -> Words:
    """Byte-level BPE, cased, trained on the corpus (RoBERTa 4.4)."""


def bucketed(
    rows: Value = ..., offset: Value = ..., *, padding: Value = ..., buckets: Value = ..., distance: Value = ...
) -> Words:
    """Position embeddings, and a bias of scores by distance, one for each head and range."""


def bytes(
    size: Value = ..., *, smoothing: Value = ..., multiple: Value = ...
) -> Words:
    """The most frequent bytes of the corpus; with size 261 all of them and five special tokens."""


def characters(
    alphabet: Value = ..., *, case: Value = ..., specials: Value = ..., unknown: Value = ..., multiple: Value = ...
) -> Words:
    """The letters of an alphabet; any other character but white space is an unknown token."""


def choose(
    train: Value = ..., dev: Value = ..., test: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., question: Value = ..., first: Value = ..., keeps: Value = ..., name: Value = ..., passage: Value = ..., text: Value = ..., choices: Value = ..., label: Value = ..., most: Value = ...
) -> Words:
    """The right one of several texts, after a question and optionally a passage."""


def classify(
    train: Value = ..., dev: Value = ..., test: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., loss: Value = ..., name: Value = ..., text: Value = ..., pair: Value = ..., label: Value = ..., stride: Value = ..., labels: Value = ...
) -> Words:
    """One of several labels for a text, or for two texts, or any number of them."""


def clm(
    *, head: Value = ...
) -> Words:
    """Predict every next token from itself and earlier ones (Transformer-XL, section 3; GPT)."""


def column(
    number: Value = ...
) -> Words:
    """Negatives in the column `negative`: a text, or the first `number` of a list."""


def concat(
    last: Value = ...
) -> Words:
    """The states of the `last` layers side by side, the lowest first."""


def conditioned(
    width: Value = ..., units: Value = ...
) -> Words:
    """End scores given a start, and an answerability score (XLNet run_squad.py)."""


def constant(
    
) -> Words:
    """Constant lr after warm-up."""


def cosine(
    end: Value = ..., *, end_lr: Value = ..., over: Value = ..., decay_from: Value = ..., cooldown: Value = ...
) -> Words:
    """Half a cosine from lr to the final rate."""


def disentangled(
    buckets: Value = ..., distance: Value = ..., *, gate: Value = ..., beyond: Value = ...
) -> Words:
    """Attention by content, and of content to distances and back (He et al. 2021, 3.1)."""


def doc_sentences(
    *, cut: Value = ...
) -> Words:
    """Whole sentences of one document, as many as fit (RoBERTa 4.2, SpanBERT as released)."""


def docstrings(
    packages: Value = ..., *, language: Value = ...
) -> Words:
    """The documentation strings of the standard library and the installed packages."""


def documents(
    *, unique: Value = ..., shortest: Value = ..., longest: Value = ..., letters: Value = ..., tokens: Value = ...
) -> Words:
    """The documents that are read of a text, each rule off unless written."""


def dropout(
    hidden: Value = ..., attention: Value = ..., ffn: Value = ..., last: Value = ...
) -> Words:
    """Dropout rates in training; a bare number sets both `hidden` and `attention`."""


def dwa(
    
) -> Words:
    """Each part reads a weighted sum of the outputs of all before it (DenseFormer; GPT-BERT)."""


def dynamic(
    
) -> Words:
    """New masks in every epoch (RoBERTa 4.1)."""


def edit(
    mask: Value = ..., ngram: Value = ..., *, share: Value = ..., seed: Value = ..., longest: Value = ...
) -> Words:
    """Words masked, then maybe an n-gram alone."""


def elc(
    *, zero: Value = ...
) -> Words:
    """Each layer reads a sum of all outputs before it, weighted by a softmax (ELC-BERT)."""


def ema(
    half_life: Value = ...
) -> Words:
    """The exponential moving average: weights of `half_life` steps before count half."""


def embed(
    train: Value = ..., dev: Value = ..., test: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., name: Value = ..., text: Value = ..., positive: Value = ..., negative: Value = ..., negatives: Value = ..., score: Value = ..., loss: Value = ..., sts: Value = ..., corpus: Value = ..., queries: Value = ..., relevant: Value = ..., pooling: Value = ..., similarity: Value = ..., normalise: Value = ..., prompt: Value = ..., query_prompt: Value = ..., passage_prompt: Value = ..., longest: Value = ..., widths: Value = ..., mlp: Value = ..., dense: Value = ..., temperature: Value = ..., both: Value = ...
) -> Words:
    """A vector for each text, of texts alike near each other."""


def embeddings(
    
) -> Words:
    """The input of the first layer."""


def epochs(
    *, epochs: Value = ...
) -> Words:
    """A length in passes over the text of a stage, which a pass turns into steps."""


def equal(
    budget: Value = ..., *, steps: Value = ..., device: Value = ...
) -> Words:
    """The most steps that a budget has room for; a compilation turns it into their number."""


def extend(
    path: Value = ..., words: Value = ..., *, smoothing: Value = ..., multiple: Value = ...
) -> Words:
    """The vocabulary of init, and whole words that it splits."""


def fan_in(
    
) -> Words:
    """Scaled by the input width: tables normal with std width^-1/2, matrices uniform."""


def fasta(
    path: Value = ..., *, language: Value = ..., masked: Value = ...
) -> Words:
    """Sequences in FASTA, each a document, or reads in FASTQ (.fastq, .fq); also .gz or .zst."""


def ffn(
    
) -> Words:
    """The FFN is shared, attention is not (ALBERT 4.5, shared-FFN)."""


def files(
    path: Value = ..., column: Value = ..., *, language: Value = ..., sentences: Value = ..., ids: Value = ...
) -> Words:
    """Files that match a glob: text, and .jsonl, .csv, .tsv, .parquet, each also .gz or .zst."""


def flops(
    *, flops: Value = ...
) -> Words:
    """A number of FLOPs of training, in the exact convention: `1e18 flops`."""


def focal(
    gamma: Value = ..., smoothing: Value = ...
) -> Words:
    """Cross entropy times (1 - p)^gamma, p being the probability of the target."""


def focus(
    vectors: Value = ...
) -> Words:
    """Rows of equal tokens; others are means of those, weighted by sparsemax of similarities."""


def full(
    *, gate: Value = ..., kv_heads: Value = ..., bias: Value = ..., norm: Value = ..., over: Value = ...
) -> Words:
    """Full attention: softmax(Q K^T / sqrt(head_dim)) V (Vaswani et al., 3.2)."""


def full_sentences(
    
) -> Words:
    """Whole sentences, as many as fit, across documents with a separator between (RoBERTa 4.2)."""


def geglu(
    *, bias: Value = ...
) -> Words:
    """W3 (f(W1 x) * W2 x): an activated map gates another one (Shazeer 2020, section 2)."""


def geglu_tanh(
    *, bias: Value = ...
) -> Words:
    """W3 (f(W1 x) * W2 x): an activated map gates another one (Shazeer 2020, section 2)."""


def glue(
    task: Value = ..., data: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., both_orders: Value = ...
) -> Words:
    """A GLUE task in its official files, `glue(mrpc, data="glue/MRPC")`."""


def groups(
    groups: Value = ...
) -> Words:
    """`groups` runs of layers, each sharing all its weights (ALBERT num_hidden_groups)."""


def heads(
    share: Value = ..., *, by: Value = ..., within: Value = ..., every: Value = ..., examples: Value = ..., normalize: Value = ...
) -> Words:
    """Attention heads; every layer keeps one (Michel et al. 2019)."""


def hf(
    name: Value = ..., config: Value = ..., *, language: Value = ..., split: Value = ..., column: Value = ..., sentences: Value = ...
) -> Words:
    """A data set read through the `datasets` library, by hub name or local path."""


def hours(
    *, hours: Value = ...
) -> Words:
    """A time: `2h`, `90min`."""


def identity(
    *, moments: Value = ...
) -> Words:
    """New layers on top whose output projections are zero, so that they add nothing at first."""


def interleave(
    *, moments: Value = ...
) -> Words:
    """Copies of each layer next to it, so that order is kept."""


def inverse_sqrt(
    
) -> Words:
    """lr x (warm-up / step)^1/2 after warm-up (fairseq; XLM optim.py, adam_inverse_sqrt)."""


def kd(
    loss: Value = ..., *, T: Value = ..., over: Value = ..., scale: Value = ..., classes: Value = ...
) -> Words:
    """Score as the teacher does: every real token, the masked ones, or the labels of a task."""


def kmers(
    k: Value = ..., alphabet: Value = ..., *, case: Value = ..., specials: Value = ..., unknown: Value = ..., multiple: Value = ..., step: Value = ...
) -> Words:
    """All words of `k` letters of an alphabet, which overlap in text (DNABERT)."""


def lamb(
    lr: Value = ..., *, warmup: Value = ..., schedule: Value = ..., decay: Value = ..., decay_exempt: Value = ..., clip: Value = ..., clip_per: Value = ..., betas: Value = ..., eps: Value = ..., bias_correction: Value = ..., adapt_exempt: Value = ...
) -> Words:
    """Adam's update, rescaled per tensor to the norm of its weights (You et al. 2020; ALBERT)."""


def last(
    
) -> Words:
    """The last layer."""


def layers(
    path: Value = ..., layers: Value = ..., *, embeddings: Value = ...
) -> Words:
    """Some layers of a deeper network, with its embeddings, pooler and heads (DistilBERT 3)."""


def learned(
    rows: Value = ..., offset: Value = ..., *, padding: Value = ...
) -> Words:
    """A table of position embeddings: `rows` rows, of which the first `offset` are unused."""


def linear(
    
) -> Words:
    """One linear layer from states to scores."""


def listed(
    path: Value = ..., pattern: Value = ..., *, unknown: Value = ..., multiple: Value = ...
) -> Words:
    """The tokens of a file, a line each in their order, after special ones that it lacks."""


def llama3(
    factor: Value = ..., slow: Value = ..., fast: Value = ..., length: Value = ..., *, attention: Value = ...
) -> Words:
    """Turns are `factor` times slower below `slow` in `length` tokens; from `fast` on none."""


def local(
    window: Value = ..., *, gate: Value = ..., kv_heads: Value = ..., bias: Value = ..., norm: Value = ..., over: Value = ..., global_every: Value = ..., global_layers: Value = ...
) -> Words:
    """Attention to near tokens in most layers, to all in a few (Beltagy et al. 2020, 3.1)."""


def lora(
    rank: Value = ..., alpha: Value = ..., on: Value = ..., dropout: Value = ...
) -> Words:
    """Pairs of narrow maps that are added to frozen ones (Hu et al. 2021)."""


def many(
    names: Value = ..., separator: Value = ...
) -> Words:
    """Any number of labels an example, in a list or in text parted by `separator`."""


def map(
    attention: Value = ..., ffn: Value = ...
) -> Words:
    """Explicit owners, one per layer; `ffn` defaults to `attention`."""


def mean(
    
) -> Words:
    """Rows of equal tokens; of others the mean of the rows of the pieces that they were."""


def mined(
    run: Value = ..., *, top: Value = ..., skip: Value = ..., margin: Value = ..., number: Value = ...
) -> Words:
    """Positives of other examples that the network of `run` ranks near a text."""


def mlm(
    p: Value = ..., unit: Value = ..., *, eval_p: Value = ..., p_end: Value = ..., replace: Value = ..., replace_per: Value = ..., random_from: Value = ..., masking: Value = ..., count: Value = ..., mask_specials: Value = ..., distinct: Value = ..., max_predictions: Value = ..., rare: Value = ..., last: Value = ...
) -> Words:
    """Predict masked tokens (BERT 3.1) in monolingual rows."""


def mntp(
    p: Value = ..., unit: Value = ..., *, eval_p: Value = ..., p_end: Value = ..., replace: Value = ..., replace_per: Value = ..., random_from: Value = ..., masking: Value = ..., count: Value = ..., mask_specials: Value = ..., distinct: Value = ..., max_predictions: Value = ..., rare: Value = ..., last: Value = ...
) -> Words:
    """Predict masked tokens, each from the state before it (BehnamGhader et al. 2024, 2.2)."""


def muon(
    lr: Value = ..., *, warmup: Value = ..., schedule: Value = ..., decay: Value = ..., decay_exempt: Value = ..., clip: Value = ..., clip_per: Value = ..., betas: Value = ..., eps: Value = ..., bias_correction: Value = ..., momentum: Value = ..., nesterov: Value = ..., ns_steps: Value = ..., adjust: Value = ..., adamw_lr: Value = ...
) -> Words:
    """Momentum of matrices, made orthogonal; AdamW for tables, heads, norms and biases."""


def network(
    size: Value = ..., *, layers: Value = ..., hidden: Value = ..., heads: Value = ..., ffn: Value = ..., tie: Value = ...
) -> Words:
    """A masked language model that samples replacements, trained by `mlm` (Clark et al. 2020, 3)."""


def neurons(
    share: Value = ..., *, by: Value = ..., within: Value = ..., every: Value = ..., examples: Value = ..., normalize: Value = ...
) -> Words:
    """Inner units of feed-forward parts; every layer keeps one."""


def ngram(
    max: Value = ...
) -> Words:
    """Runs of 1 to `max` whole words, P(n) proportional to 1/n (ALBERT 4.1)."""


def none(
    
) -> Words:
    """Every batch has all rows."""


def normal(
    std: Value = ..., norms: Value = ..., *, positions: Value = ..., glorot: Value = ...
) -> Words:
    """Normal (fairseq init_bert_params, Hugging Face ports)."""


def nsp(
    
) -> Words:
    """Next sentence prediction: 0 if B follows A, 1 if it is from another document (BERT 3.1)."""


def own(
    code: Value = ..., *, lr: Value = ..., warmup: Value = ..., schedule: Value = ..., decay: Value = ..., decay_exempt: Value = ..., clip: Value = ..., clip_per: Value = ..., **texts: Value
) -> Words:
    """A class of the user's own: `update` makes what the rate times is taken off a weight."""


def pairs(
    path: Value = ..., **texts: Value
) -> Words:
    """Sentences and their translations: `pairs(en="a.en", fr="a.fr")`, line by line."""


def plain(
    
) -> Words:
    """Independent start and end scores per token (BERT run_squad.py)."""


def plm(
    k: Value = ..., max: Value = ..., *, unit: Value = ..., block: Value = ...
) -> Words:
    """Predict some tokens of a row in a random order, each from those before it (Yang et al. 2019)."""


def polynomial(
    power: Value = ..., *, end: Value = ..., end_lr: Value = ..., over: Value = ..., decay_from: Value = ..., cooldown: Value = ...
) -> Words:
    """lr x (1 - progress)^power, down to the final rate."""


def post(
    eps: Value = ..., *, function: Value = ..., bias: Value = ..., embeddings: Value = ...
) -> Words:
    """norm(x + f(x)): the last layer's output is normalised already (BERT)."""


def pre(
    eps: Value = ..., *, function: Value = ..., bias: Value = ..., affine: Value = ..., embeddings: Value = ..., first: Value = ..., last: Value = ..., context: Value = ..., inner: Value = ..., after_attention: Value = ..., after_ffn: Value = ...
) -> Words:
    """x + f(norm(x)), with a norm after the last layer (StackingBERT, Megatron BERT)."""


def prepared(
    path: Value = ..., *, language: Value = ..., cache: Value = ..., window: Value = ...
) -> Words:
    """Text that `bertc prepare` made tokens of, in a folder here or at an address of a store."""


def race(
    data: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., question: Value = ..., first: Value = ..., keeps: Value = ...
) -> Words:
    """Questions about passages with four choices each, in RACE's files."""


def random(
    
) -> Words:
    """Random initial values, determined by the seed."""


def read(
    train: Value = ..., dev: Value = ..., test: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., stride: Value = ..., question: Value = ..., longest: Value = ..., best: Value = ..., threshold: Value = ..., name: Value = ..., passage: Value = ..., text: Value = ..., target: Value = ..., start: Value = ..., unanswerable: Value = ...
) -> Words:
    """The span of a passage that answers a question; `start` is its character offset."""


def regress(
    train: Value = ..., dev: Value = ..., test: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., name: Value = ..., text: Value = ..., pair: Value = ..., label: Value = ..., stride: Value = ...
) -> Words:
    """A number for a text, or for two texts, or one for each of the columns in `label`."""


def relative(
    *, untie: Value = ..., segments: Value = ..., clamp: Value = ...
) -> Words:
    """Attention by content and by relative distance (Dai et al. 2019, 3.3)."""


def replace(
    model: Value = ..., vectors: Value = ..., *, share: Value = ..., seed: Value = ..., probability: Value = ..., candidates: Value = ...
) -> Words:
    """Words replaced with `probability` by one of the `candidates` that fit best."""


def rerank(
    train: Value = ..., dev: Value = ..., test: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., name: Value = ..., text: Value = ..., passage: Value = ..., label: Value = ..., positive: Value = ..., negative: Value = ..., negatives: Value = ..., activation: Value = ...
) -> Words:
    """A score of a passage for a query, read together (a cross-encoder)."""


def restore(
    over: Value = ..., *, p: Value = ...
) -> Words:
    """Predict the original tokens where a generator replaced some (ELECTRA 3.4)."""


def reverse_complement(
    probability: Value = ...
) -> Words:
    """Rows of text as the other strand of DNA has them, each with `probability` in every pass."""


def rising(
    rows: Value = ..., over: Value = ..., by: Value = ...
) -> Words:
    """Batches of `rows` rows, then of `by` more, ..., each size for as many steps as any other."""


def rotary(
    theta: Value = ..., local_theta: Value = ..., *, pairs: Value = ..., share: Value = ..., scale: Value = ..., rates: Value = ..., scaled: Value = ...
) -> Words:
    """Queries and keys turned by angles proportional to their positions (Su et al. 2021, 3.2)."""


def rows(
    translations: Value = ..., *, both_orders: Value = ...
) -> Words:
    """Rows of any language in a batch."""


def rtd(
    over: Value = ..., *, p: Value = ..., add_cls: Value = ...
) -> Words:
    """Classify every token as original (0) or replaced (1) (ELECTRA 3)."""


def run(
    path: Value = ..., *, embeddings: Value = ..., step: Value = ..., moments: Value = ...
) -> Words:
    """All weights of the encoder, which must match by name, sharing and shape."""


def same(
    
) -> Words:
    """Rows as they are: both networks read the same tokens."""


def sbo(
    max_targets: Value = ..., *, position_dim: Value = ..., extra_pair: Value = ...
) -> Words:
    """Predict tokens of a masked span from its neighbours and their position (SpanBERT 3.2)."""


def second_to_last(
    
) -> Words:
    """The layer below the last."""


def segment_pair(
    short: Value = ..., *, short_per: Value = ...
) -> Words:
    """[CLS] A [SEP] B [SEP], A and B runs of sentences (BERT, RoBERTa 4.2 SEGMENT-PAIR)."""


def sentence_pair(
    
) -> Words:
    """[CLS] A [SEP] B [SEP], A and B single sentences (RoBERTa 4.2 SENTENCE-PAIR)."""


def single_segment(
    short: Value = ...
) -> Words:
    """[CLS] x [SEP], x a contiguous run of one document (SpanBERT 3.3)."""


def sinusoidal(
    *, scaled: Value = ...
) -> Words:
    """Sines, then cosines, of the position (Vaswani et al., 3.5): waves of 2 pi 10,000^(i / half)."""


def sop(
    
) -> Words:
    """Sentence order prediction: 0 if A and B are in order, 1 if swapped (ALBERT 3.1)."""


def span(
    p: Value = ..., max: Value = ..., *, lengths: Value = ...
) -> Words:
    """Runs of words: truncated geometric lengths (SpanBERT 3.1), 1 to `max` alike, or `max`."""


def spans(
    train: Value = ..., dev: Value = ..., test: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., name: Value = ..., words: Value = ..., tags: Value = ..., labels: Value = ..., negatives: Value = ..., widest: Value = ..., units: Value = ..., marker: Value = ..., separator: Value = ...
) -> Words:
    """Spans of words by the names of what they are, also of names never seen (GLiNER)."""


def sparse(
    query: Value = ..., passage: Value = ..., *, warmup: Value = ...
) -> Words:
    """A weight for each token of the vocabulary, of which few are not 0 (SPLADE v2)."""


def spec(
    spec: Value = ...
) -> Words:
    """The shape of a spec without weights, enough for estimates."""


def squad(
    data: Value = ..., dev: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., stride: Value = ..., question: Value = ..., longest: Value = ..., best: Value = ..., threshold: Value = ..., version: Value = ...
) -> Words:
    """Questions about passages in SQuAD's files, `squad("squad/", version=2)`."""


def stable_adamw(
    lr: Value = ..., *, warmup: Value = ..., schedule: Value = ..., decay: Value = ..., decay_exempt: Value = ..., clip: Value = ..., clip_per: Value = ..., betas: Value = ..., eps: Value = ..., bias_correction: Value = ..., decoupled: Value = ...
) -> Words:
    """Adam whose rate is lower for a tensor while its gradients outgrow their own average."""


def stack(
    *, moments: Value = ...
) -> Words:
    """Copies of the whole stack on top until it is deep enough: layer l from layer l mod k."""


def static(
    copies: Value = ...
) -> Words:
    """`copies` fixed maskings, used in turn epoch after epoch (BERT --dupe_factor)."""


def stream(
    
) -> Words:
    """A stream of text: row r of a batch continues where row r of the batch before ended."""


def stream_pair(
    reuse: Value = ..., *, both_ways: Value = ...
) -> Words:
    """A stream of text, then two segments: x A [SEP] B [SEP] [CLS] (XLNet data_utils.py)."""


def sum(
    last: Value = ...
) -> Words:
    """The sum of the `last` layers' states; `all`: of every layer, without the embeddings."""


def swiglu(
    *, bias: Value = ...
) -> Words:
    """W3 (f(W1 x) * W2 x): an activated map gates another one (Shazeer 2020, section 2)."""


def tag(
    train: Value = ..., dev: Value = ..., test: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., loss: Value = ..., stride: Value = ..., labels: Value = ..., name: Value = ..., words: Value = ..., tags: Value = ..., letters: Value = ...
) -> Words:
    """A tag per word, from columns with lists, or with text separated by white space."""


def tagging(
    data: Value = ..., column: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., loss: Value = ..., stride: Value = ..., labels: Value = ...
) -> Words:
    """Tags of words in CoNLL-2003's columns or in CoNLL-U, `tagging("conll2003/", "ner")`."""


def tile(
    *, moments: Value = ...
) -> Words:
    """Layers at the same relative depth, and widths too: a network begins a wider one."""


def tlm(
    p: Value = ..., unit: Value = ..., *, eval_p: Value = ..., p_end: Value = ..., replace: Value = ..., replace_per: Value = ..., random_from: Value = ..., masking: Value = ..., count: Value = ..., mask_specials: Value = ..., distinct: Value = ..., max_predictions: Value = ..., rare: Value = ..., last: Value = ...
) -> Words:
    """Predict masked tokens of a sentence and its translation (XLM 3.3), with mlm's head."""


def token(
    
) -> Words:
    """Single tokens (BERT 3.1)."""


def tokenizer(
    path: Value = ..., lower: Value = ..., *, size: Value = ..., multiple: Value = ...
) -> Words:
    """An existing vocabulary: a folder of a tokenizer's files, or one of them."""


def tokens(
    *, tokens: Value = ...
) -> Words:
    """A length in tokens, padding included, which a pass turns into steps."""


def transform(
    *, bias: Value = ..., decoder: Value = ..., affine: Value = ..., dropout: Value = ..., tied: Value = ..., activation: Value = ...
) -> Words:
    """Dense, activation and norm, then the tied table and a bias (BERT, modeling.py)."""


def transformer(
    
) -> Words:
    """Layers of attention and feed-forward parts, as the settings of the encoder say."""


def trim(
    path: Value = ..., tokens: Value = ..., *, multiple: Value = ...
) -> Words:
    """Tokens of the vocabulary of init: those that `data` needs, special ones and characters."""


def truncated_normal(
    std: Value = ..., *, glorot: Value = ..., cut: Value = ..., depth_scaled: Value = ...
) -> Words:
    """Normal, truncated at `cut` standard deviations (BERT, modeling.py create_initializer)."""


def two_layer(
    width: Value = ..., *, tied: Value = ...
) -> Words:
    """Two dense layers, an activation after each, then scores; no biases and no norm (UltraBERT)."""


def uniform(
    bound: Value = ...
) -> Words:
    """Uniform within +-`bound` (NeoBERT, decoder_init_range)."""


def unigram(
    
) -> Words:
    """Replacements sampled by token frequency in the training text."""


def vectors(
    path: Value = ...
) -> Words:
    """Rows of the token table from a file of word vectors, in the text format of GloVe or word2vec."""


def weighted_sum(
    last: Value = ...
) -> Words:
    """A sum by learned weights: a softmax over layers, times a learned factor (ELMo, 3.2)."""


def weights(
    weights: Value = ..., smoothing: Value = ...
) -> Words:
    """Weights as written."""


def whole(
    *, scaled: Value = ..., dropped: Value = ..., masked: Value = ...
) -> Words:
    """One table for all tokens; `scaled`: embeddings times sqrt(hidden) (Transformer-XL)."""


def word(
    
) -> Words:
    """Whole words (BERT create_pretraining_data.py --do_whole_word_mask)."""


def wordpiece(
    size: Value = ..., lower: Value = ..., *, smoothing: Value = ..., alphabet: Value = ..., multiple: Value = ...
) -> Words:
    """WordPiece with BERT's normaliser and pre-tokeniser, trained on the corpus."""


def words(
    *, words: Value = ...
) -> Words:
    """A length in words, as white space separates them, which a pass turns into steps."""


def wsd(
    decay: Value = ..., *, shape: Value = ..., end: Value = ...
) -> Words:
    """Constant lr after warm-up, and a decay to `end` x lr over the last steps (Hu et al. 2024)."""


def xnli(
    data: Value = ..., language: Value = ..., *, dropout: Value = ..., examples: Value = ..., dev_examples: Value = ..., head: Value = ..., name: Value = ...
) -> Words:
    """Natural language inference in 15 languages (Conneau et al. 2018), trained on one of them."""


def yarn(
    factor: Value = ..., slow: Value = ..., fast: Value = ..., length: Value = ..., *, attention: Value = ...
) -> Words:
    """Turns are `factor` times slower below `slow` in `length` tokens; from `fast` on none."""
