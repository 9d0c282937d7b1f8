/* Regular expressions as lists of items: alternatives one after another, the first that
 * matches counts. An item takes characters of a class, as many as it can and fewer if what
 * follows needs them, or looks at the character ahead or behind. */
enum kind { TAKE, AHEAD, NOT_AHEAD, BEHIND, NOT_BEHIND, OR, END };

struct item {
    enum kind kind;
    int32_t what; /* a code point, or -1 - a class */
    uint32_t least, most;
};

static int fits(const struct item *item, uint32_t c) {
    return item->what < 0 ? is(c, -1 - item->what) : c == (uint32_t)item->what;
}

/* True if a look passes; at an edge of the part there is no character. */
static int passes(const struct item *item, const unsigned char *text, struct span in, size_t at) {
    const int behind = item->kind == BEHIND || item->kind == NOT_BEHIND;
    if (behind ? at == in.begin : at == in.end) return item->kind == NOT_AHEAD || behind;
    if (behind) at = before(text, in.begin, at);
    const int fit = fits(item, read_character(text, in.end, &at));
    return fit == (item->kind == AHEAD || item->kind == BEHIND);
}

/* Where an alternative ends that begins there, or nowhere. */
static size_t match_items(const struct item *items, const unsigned char *text, struct span in,
                          size_t at) {
    size_t ends[MOST_ITEMS];
    uint32_t taken[MOST_ITEMS];
    for (size_t i = 0; items[i].kind != OR && items[i].kind != END; i++) {
        const struct item *item = items + i;
        int good = 1;
        taken[i] = item->kind == TAKE ? 0 : item->least;
        if (item->kind != TAKE) good = passes(item, text, in, at);
        for (size_t next = at; item->kind == TAKE && taken[i] < item->most && next < in.end; at = next) {
            if (!fits(item, read_character(text, in.end, &next))) break;
            taken[i]++;
        }
        ends[i] = at;
        if (good && taken[i] >= item->least) continue;
        do { /* give a character back, of the last item that can */
            if (i-- == 0) return SIZE_MAX;
        } while (taken[i] == items[i].least);
        taken[i]--;
        ends[i] = at = before(text, in.begin, ends[i]);
    }
    return at;
}

/* The first match at or behind a place, which is moved to its begin; else the end, twice. */
static size_t find(const struct item *pattern, const unsigned char *text, struct span in,
                   size_t *at) {
    while (*at < in.end) {
        for (const struct item *items = pattern;; items++) {
            const size_t end = match_items(items, text, in, *at);
            if (end != SIZE_MAX && end > *at) return end;
            while (items->kind != OR && items->kind != END) items++;
            if (items->kind == END) break;
        }
        read_character(text, in.end, at);
    }
    return in.end;
}

$patterns
