/* Unigram: of all ways to spell the word that of the highest sum of scores (Viterbi). */
struct path {
    double score;
    size_t begin, end; /* of the last token up to here; of the next on the best way */
    int32_t id;
};

static void try_token(struct path *paths, size_t begin, size_t end, int32_t id, int32_t scored) {
    const double *scores = (const double *)(const void *)tables.at[SCORES];
    const double sum = scores[scored] + paths[begin].score;
    if (paths[end].begin == SIZE_MAX || sum > paths[end].score)
        paths[end] = (struct path){sum, begin, 0, id};
}

static int word_to_ids(struct tokens *t, const unsigned char *word, size_t size) {
    t->work.size = 0;
    int failed = reserve(&t->work, (size + 1) * sizeof(struct path));
    if (failed) return failed;
    struct path *paths = (struct path *)(void *)t->work.at;
    for (size_t i = 0; i <= size; i++) paths[i] = (struct path){0, SIZE_MAX, 0, -1};
    for (size_t at = 0, next = 0; at < size; at = next) {
        int alone = 0; /* the character is a token */
        uint32_t node = 0;
        read_character(word, size, &next);
        for (size_t i = at; i < size && (node = child(WORDS, node, word[i])); i++) {
            const int32_t id = value(WORDS, node);
            if (id >= 0) try_token(paths, at, i + 1, id, id);
            alone |= id >= 0 && i + 1 == next;
        }
        if (!alone) try_token(paths, at, next, UNKNOWN, VOCABULARY);
    }
    for (size_t at = size; at > 0; at = paths[at].begin) paths[paths[at].begin].end = at;
    for (size_t at = 0, end = 0; at < size && !failed; at = end) {
        end = paths[at].end;
        int32_t id = paths[end].id;
        const int unknown = id == UNKNOWN;
        while (unknown && end < size && paths[paths[end].end].id == UNKNOWN) end = paths[end].end;
        if (unknown) id = id_of(word + at, end - at);
        const int bytes = id < 0 && are_bytes(word + at, end - at);
        if (!bytes) failed = append_id(t, id < 0 ? UNKNOWN : id);
        for (size_t i = at; bytes && i < end && !failed; i++)
            failed = append_id(t, (int32_t)section(BYTE_IDS)[word[i]]);
    }
    return failed;
}
