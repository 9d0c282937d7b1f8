static int tokenizer_open(const unsigned char *data, size_t bytes) {
    return data && bytes ? DAMAGED : 0;
}

static long tokenizer_row(const char *text, size_t bytes, const char *pair, size_t pair_bytes,
                          int32_t *ids, int32_t *segments, long longest) {
    (void)text, (void)bytes, (void)pair, (void)pair_bytes, (void)ids, (void)segments, (void)longest;
    return -NOT_A_REQUEST;
}

static const char *tokenizer_token(int32_t id) {
    (void)id;
    return NULL;
}
