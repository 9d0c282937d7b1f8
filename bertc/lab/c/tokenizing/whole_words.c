/* Each word is a token, or unknown. */
static int word_to_ids(struct tokens *t, const unsigned char *word, size_t size) {
    const uint32_t node = follow(WORDS, word, size);
    return append_id(t, node && value(WORDS, node) >= 0 ? value(WORDS, node) : UNKNOWN);
}
