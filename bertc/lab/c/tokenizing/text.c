/* Text on its way to tokens: bytes, and the parts of them that are words so far. */
struct buffer {
    unsigned char *at;
    size_t size, room; /* bytes */
};

struct span {
    size_t begin, end;
};

struct tokens {
    struct buffer text, spans;         /* the text of a piece, and its parts */
    struct buffer new_text, new_spans; /* where a step writes them anew */
    struct buffer normal, work;        /* a piece as normalised; what a step or word needs */
    struct buffer ids;
};

static int reserve(struct buffer *to, size_t more) {
    if (more > SIZE_MAX / 4 - to->size) return -NO_MEMORY;
    if (to->size + more <= to->room) return 0;
    const size_t room = 2 * (to->size + more);
    unsigned char *at = realloc(to->at, room);
    if (!at) return -NO_MEMORY;
    to->at = at;
    to->room = room;
    return 0;
}

static int append(struct buffer *to, const void *from, size_t size) {
    const int failed = reserve(to, size);
    if (failed || size == 0) return failed;
    memcpy(to->at + to->size, from, size);
    to->size += size;
    return 0;
}

static int append_id(struct tokens *t, int32_t id) { return append(&t->ids, &id, sizeof id); }

static struct span *spans(struct tokens *t) { return (struct span *)(void *)t->spans.at; }

static size_t parts(const struct tokens *t) { return t->spans.size / sizeof(struct span); }

/* Add a part of the new text or spans; there are no empty ones. */
static int add_span(struct tokens *t, size_t begin, size_t end) {
    const struct span added = {begin, end};
    return begin < end ? append(&t->new_spans, &added, sizeof added) : 0;
}

static void swap(struct buffer *a, struct buffer *b) {
    const struct buffer first = *a;
    *a = *b;
    *b = first;
    b->size = 0;
}

/* The end of a step that wrote text and parts anew. */
static int finish(struct tokens *t, int failed) {
    swap(&t->text, &t->new_text);
    swap(&t->spans, &t->new_spans);
    return failed;
}

/* Begin with a text as the one part. */
static int set_text(struct tokens *t, const unsigned char *text, size_t size) {
    t->new_text.size = t->new_spans.size = 0;
    int failed = append(&t->new_text, text, size);
    if (!failed) failed = add_span(t, 0, size);
    return finish(t, failed);
}

static uint32_t read_character(const unsigned char *text, size_t end, size_t *at) {
    uint32_t c = text[(*at)++];
    int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
    if (more) c &= 0x3Fu >> more;
    for (; more > 0 && *at < end; more--) c = c << 6 | (text[(*at)++] & 0x3Fu);
    return c < POINTS ? c : 0xFFFD;
}

/* Write a character as UTF-8: its bytes. */
static size_t encode(uint32_t c, unsigned char bytes[4]) {
    const size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, c >>= 6) bytes[i] = (unsigned char)(0x80 | (c & 0x3F));
    bytes[0] = (unsigned char)(size == 1 ? c : (0xF00u >> size & 0xF0) | c);
    return size;
}

/* Where the character that ends there begins. */
static size_t before(const unsigned char *text, size_t begin, size_t at) {
    for (at--; at > begin && (text[at] & 0xC0) == 0x80;) at--;
    return at;
}

/* True if all of a text is what its characters are written as. */
static int is_utf8(const unsigned char *text, size_t size) {
    unsigned char bytes[4];
    for (size_t at = 0, from = 0; at < size; from = at) {
        const uint32_t c = read_character(text, size, &at);
        const size_t length = encode(c, bytes);
        if (length != at - from || memcmp(bytes, text + from, length)) return 0;
        if (c >= 0xD800 && c < 0xE000) return 0;
    }
    return 1;
}
