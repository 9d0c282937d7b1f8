/* A text or a pair as a row of the network: added tokens, words, the template around them. */
static const int32_t SINGLE[] = {$single}; /* ids and segments; -1 and -2 are the texts */
static const int32_t PAIR[] = {$pair};

static int words(struct tokens *t, const unsigned char *text, size_t size) {
    int failed = set_text(t, text, size);
    if (!failed) failed = split_words(t);
    for (size_t i = 0; i < parts(t) && !failed; i++)
        failed = word_to_ids(t, t->text.at + spans(t)[i].begin, spans(t)[i].end - spans(t)[i].begin);
    return failed;
}

/* The longest added token that begins there: its number, and its end; -1 if none does. */
static int32_t added_at(int trie, const unsigned char *text, size_t size, size_t at, size_t *end) {
    int32_t longest = -1;
    uint32_t node = 0;
    for (size_t i = at; i < size && (node = child(trie, node, text[i])); i++)
        if (value(trie, node) >= 0) {
            longest = value(trie, node);
            *end = i + 1;
        }
    return longest;
}

enum { SINGLE_WORD = 1, LEFT = 2, RIGHT = 4 }; /* spaces on these sides are the token's too */

/* True if a token that has to be a word is part of a longer one. */
static int inside_word(const unsigned char *text, size_t size, size_t begin, size_t end) {
    size_t from = begin > 0 ? before(text, 0, begin) : 0;
    return (begin > 0 && is(read_character(text, begin, &from), WORD)) ||
           (end < size && is(read_character(text, size, &end), WORD));
}

/* The ids of a text: of its added tokens, and what `rest` makes of that between them. */
static int scan(struct tokens *t, int trie, const unsigned char *text, size_t size,
                int (*rest)(struct tokens *, const unsigned char *, size_t)) {
    int failed = 0;
    size_t done = 0;
    for (size_t at = 0, end = 0; at < size && !failed; at = end) {
        const int32_t number = added_at(trie, text, size, at, &end);
        const uint32_t how = number < 0 ? 0 : section(ADDED_HOW)[number];
        if (number < 0) end = at + 1;
        if (number < 0 || ((how & SINGLE_WORD) && inside_word(text, size, at, end))) continue;
        size_t begin = at, stop = end;
        while ((how & LEFT) && begin > done) {
            const size_t space = before(text, done, begin);
            size_t from = space;
            if (!is(read_character(text, size, &from), SPACE)) break;
            begin = space;
        }
        for (size_t next = end; (how & RIGHT) && next < size; stop = next)
            if (!is(read_character(text, size, &next), SPACE)) break;
        if (begin > done) failed = rest(t, text + done, begin - done);
        if (!failed) failed = append_id(t, (int32_t)section(ADDED)[number]);
        done = stop;
    }
    return failed || done >= size ? failed : rest(t, text + done, size - done);
}

static int piece(struct tokens *t, const unsigned char *text, size_t size) {
    int failed = set_text(t, text, size);
    if (!failed) failed = normalise(t);
    t->normal.size = 0;
    if (!failed) failed = append(&t->normal, t->text.at, t->text.size);
    return failed ? failed : scan(t, ADDED_NORMAL, t->normal.at, t->normal.size, words);
}

/* What is cut of the first and the second text: token by token from the longer. */
static void cut_texts(const size_t sizes[2], size_t over, size_t cuts[2]) {
    const int longer = sizes[1] > sizes[0];
    const size_t more = sizes[longer] - sizes[!longer];
    cuts[longer] = more < over ? more : over;
    cuts[0] += (over - cuts[longer]) / 2;
    cuts[1] += over - cuts[0] - cuts[1];
}

/* What is cut for a window of the longer text, which begins after `*skipped` tokens of it, with the
 * other; in `*skipped` where the next begins, or 0. */
static void cut_window(const size_t sizes[2], size_t room, long stride, size_t cuts[2],
                       long *skipped) {
    const int longer = sizes[1] >= sizes[0];
    const size_t most = sizes[!longer] < room / 2 ? sizes[!longer] : room / 2, window = room - most;
    const size_t begin = (size_t)*skipped, left = begin < sizes[longer] ? sizes[longer] - begin : 0;
    cuts[!longer] = sizes[!longer] - most;
    cuts[longer] = sizes[longer] - (left < window ? left : window);
    if (left <= window) *skipped = 0;
    else *skipped += (size_t)stride < window ? stride : (long)window;
}

/* Write a text or two into their row: its length. */
static long fill_row(const int32_t *texts, const size_t sizes[2], const int32_t *row, size_t size,
                     int32_t *ids, int32_t *segments, long longest, long stride, long *skipped) {
    size_t cuts[2] = {0, 0}, specials = 0, at = 0;
    for (size_t i = 0; i < size; i += 2) specials += row[i] >= 0;
    if (longest < 0 || (size_t)longest < specials) return -TOO_LONG;
    const size_t room = (size_t)longest - specials, all = sizes[0] + sizes[1];
    const size_t begin = skipped ? (size_t)*skipped : 0;
    const int windowed = skipped && all > room;
    if (windowed) cut_window(sizes, room, stride, cuts, skipped);
    else cut_texts(sizes, all > room ? all - room : 0, cuts);
    for (size_t i = 0; i < size; i += 2) {
        const int text = row[i] == -2;
        const int32_t *from = row[i] < 0 ? texts + (text ? sizes[0] : 0) : row + i;
        if (windowed) from += row[i] < 0 && text == (sizes[1] >= sizes[0]) ? begin : 0;
        else if (row[i] < 0 && CUT_LEFT) from += cuts[text];
        for (size_t n = row[i] < 0 ? sizes[text] - cuts[text] : 1; n > 0; n--, at++) {
            ids[at] = *from++;
            segments[at] = row[i + 1];
        }
    }
    return (long)at;
}

/* The token ids of a text, or of two, with the special tokens around them, cut to `longest`:
 * their number, or an error below 0. With `skipped` the first window, and where the next begins. */
static long tokenizer_row(const char *text, size_t bytes, const char *pair, size_t pair_bytes,
                          int32_t *ids, int32_t *segments, long longest, long stride,
                          long *skipped) {
    struct tokens t;
    const unsigned char *first = (const unsigned char *)text, *second = (const unsigned char *)pair;
    memset(&t, 0, sizeof t);
    if (!tables.at[0]) return -DAMAGED;
    if (!is_utf8(first, bytes) || (pair && !is_utf8(second, pair_bytes))) return -NOT_UTF8;
    long result = reserve(&t.ids, 1);
    if (!result) result = scan(&t, ADDED_RAW, first, bytes, piece);
    size_t sizes[2] = {t.ids.size / sizeof(int32_t), 0};
    if (!result && pair) result = scan(&t, ADDED_RAW, second, pair_bytes, piece);
    sizes[1] = t.ids.size / sizeof(int32_t) - sizes[0];
    const int32_t *row = pair ? PAIR : SINGLE;
    const size_t size = pair ? sizeof PAIR / sizeof *PAIR : sizeof SINGLE / sizeof *SINGLE;
    if (!result)
        result = fill_row((int32_t *)(void *)t.ids.at, sizes, row, size, ids, segments, longest,
                          stride, skipped);
    unsigned char *buffers[] = {t.text.at,   t.spans.at, t.new_text.at, t.new_spans.at,
                                t.normal.at, t.work.at,  t.ids.at};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) free(buffers[i]);
    return result;
}

/* The text of a token, NULL if there is none. */
static const char *tokenizer_token(int32_t id) {
    if (id < 0 || id >= VOCABULARY || !tables.at[0]) return NULL;
    const char *token = (const char *)tables.at[TOKEN_TEXTS] + section(TOKEN_STARTS)[id];
    return *token ? token : NULL;
}

/* Take the data of this tokenizer: 0, or an error below 0. It has to stay where it is. */
static int tokenizer_open(const unsigned char *data, size_t bytes) {
    const uint32_t *header = (const uint32_t *)(const void *)data;
    tables.at[0] = NULL;
    if (((uintptr_t)data & 7) || bytes < 4 + 8 * SECTIONS || header[0] != MAGIC) return -DAMAGED;
    for (size_t i = SECTIONS; i-- > 0;) { /* the first last: with it the tables are there */
        const size_t begin = header[1 + 2 * i], size = header[2 + 2 * i];
        if (begin % 8 || begin > bytes || size > bytes - begin) return -DAMAGED;
        tables.at[i] = data + begin;
        tables.size[i] = size;
    }
    if (!are_sound()) tables.at[0] = NULL;
    return tables.at[0] ? 0 : -DAMAGED;
}
