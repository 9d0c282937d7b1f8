/* What this tokenizer does. */
static int normalise(struct tokens *t) {
    int failed = 0;
    (void)t;
$normalise    return failed;
}

static int split_words(struct tokens *t) {
    int failed = 0;
    (void)t;
$split    return failed;
}

static int are_sound(void) {
    return $checks;
}
