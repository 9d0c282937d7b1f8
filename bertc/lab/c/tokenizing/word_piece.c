/* WordPiece: the longest token that the word begins with, then of the rest. */
static int word_to_ids(struct tokens *t, const unsigned char *word, size_t size) {
    static const char inside[] = $inside;
    const size_t ids = t->ids.size;
    size_t characters = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < size; i++) characters += (word[i] & 0xC0) != 0x80;
    int failed = 0, unknown = characters > LONGEST_WORD;
    for (size_t at = 0, end = 0; at < size && !unknown && !failed; at = end) {
        int32_t id = -1;
        for (size_t i = at; i < size && (node = child(WORDS, node, word[i])); i++)
            if (value(WORDS, node) >= 0) {
                id = value(WORDS, node);
                end = i + 1;
            }
        node = follow(WORDS, (const unsigned char *)inside, sizeof inside - 1);
        unknown = id < 0 || (!node && sizeof inside > 1 && end < size);
        failed = append_id(t, id);
    }
    if (!unknown || failed) return failed;
    t->ids.size = ids;
    return append_id(t, UNKNOWN);
}
