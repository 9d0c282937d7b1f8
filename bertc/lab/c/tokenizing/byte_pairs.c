/* Byte-pair encoding: the characters, then again and again the pair of the lowest rank. */
struct symbol {
    int32_t id; /* -1: it is part of one before */
    size_t before, next;
};

struct merge {
    uint32_t rank;
    int32_t id; /* of the whole */
    size_t at;
};

struct word {
    struct symbol *symbols;
    struct merge *heap; /* none is better than the one at half its place */
    size_t size, merges;
};

/* The place of a pair among the sorted ones, or nowhere. */
static size_t place_of(int32_t first, int32_t second) {
    const uint32_t *pairs = section(MERGES);
    const uint64_t key = (uint64_t)(uint32_t)first << 32 | (uint32_t)second;
    size_t low = 0, high = count(RANKS);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const uint64_t there = (uint64_t)pairs[2 * middle] << 32 | pairs[2 * middle + 1];
        if (there == key) return middle;
        if (there < key) low = middle + 1;
        else high = middle;
    }
    return SIZE_MAX;
}

static int comes_first(struct merge a, struct merge b) {
    return a.rank < b.rank || (a.rank == b.rank && a.at < b.at);
}

static void push_pair(struct word *word, size_t at) {
    const struct symbol *first = word->symbols + at;
    const size_t place = place_of(first->id, word->symbols[first->next].id);
    if (place == SIZE_MAX) return;
    const struct merge merge = {section(RANKS)[place], (int32_t)section(MERGED)[place], at};
    size_t i = word->merges++;
    for (; i > 0 && comes_first(merge, word->heap[(i - 1) / 2]); i = (i - 1) / 2)
        word->heap[i] = word->heap[(i - 1) / 2];
    word->heap[i] = merge;
}

static struct merge pop_merge(struct word *word) {
    const struct merge best = word->heap[0], last = word->heap[--word->merges];
    size_t i = 0;
    for (size_t next = 1; next < word->merges; next = 2 * i + 1) {
        if (next + 1 < word->merges && comes_first(word->heap[next + 1], word->heap[next])) next++;
        if (!comes_first(word->heap[next], last)) break;
        word->heap[i] = word->heap[next];
        i = next;
    }
    word->heap[i] = last;
    return best;
}

static void merge_all(struct word *word) {
    for (size_t i = 0; i + 1 < word->size; i++) push_pair(word, i);
    while (word->merges > 0) {
        const struct merge merge = pop_merge(word);
        struct symbol *first = word->symbols + merge.at;
        if (first->id < 0 || first->next >= word->size) continue;
        struct symbol *second = word->symbols + first->next;
        const size_t place = place_of(first->id, second->id);
        if (place == SIZE_MAX || (int32_t)section(MERGED)[place] != merge.id)
            continue; /* one of the two has become another */
        first->id = merge.id;
        first->next = second->next;
        second->id = -1;
        if (first->next < word->size) {
            word->symbols[first->next].before = merge.at;
            push_pair(word, merge.at);
        }
        if (first->before != SIZE_MAX) push_pair(word, first->before);
    }
}

static void add_symbol(struct word *word, int32_t id) {
    word->symbols[word->size] = (struct symbol){id, word->size - 1, word->size + 1};
    word->size++;
}

static int word_to_ids(struct tokens *t, const unsigned char *text, size_t size) {
    int32_t id = IGNORE_MERGES ? id_of(text, size) : -1;
    if (id >= 0) return append_id(t, id);
    t->work.size = 0;
    int unknown = 0, failed = reserve(&t->work, size * (sizeof(struct symbol) + 3 * sizeof(struct merge)));
    if (failed) return failed;
    struct word word = {(struct symbol *)(void *)t->work.at, NULL, 0, 0};
    word.heap = (struct merge *)(void *)(word.symbols + size);
    for (size_t at = 0, from = 0; at < size; from = at) {
        read_character(text, size, &at);
        id = id_of(text + from, at - from);
        const int spelled = id < 0 && are_bytes(text + from, at - from);
        if (unknown && (id >= 0 || (!spelled && !FUSES_UNKNOWN))) add_symbol(&word, UNKNOWN);
        unknown = id < 0 && (unknown || !spelled) && UNKNOWN >= 0;
        for (size_t i = from; spelled && i < at; i++)
            add_symbol(&word, (int32_t)section(BYTE_IDS)[text[i]]);
        if (id >= 0) add_symbol(&word, id);
    }
    if (unknown) add_symbol(&word, UNKNOWN);
    merge_all(&word);
    for (size_t i = 0; i < word.size && !failed; i++)
        failed = word.symbols[i].id < 0 ? 0 : append_id(t, word.symbols[i].id);
    return failed;
}
