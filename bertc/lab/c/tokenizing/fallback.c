/* Bytes as tokens where no other spells them; VOCABULARY stands for one that is none. */
static int are_bytes(const unsigned char *text, size_t size) {
    size_t i = 0;
    while (i < size && section(BYTE_IDS)[text[i]] < VOCABULARY) i++;
    return i == size;
}

static int32_t id_of(const unsigned char *text, size_t size) {
    const uint32_t node = follow(WORDS, text, size);
    return node ? value(WORDS, node) : -1;
}
