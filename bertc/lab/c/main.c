#ifndef BERTC_LIBRARY
/* The program: a line of text, or two with a tab between, to a line of JSON. */
typedef struct {
    char *text;
    size_t length, room;
} line;


/* The next line of a file without its end, whatever its length; 0 at the end of the file. */
static int next_line(FILE *file, line *read) {
    int letter;
    read->length = 0;
    while ((letter = getc(file)) != EOF) {
        if (read->length + 2 > read->room) {
            char *longer = realloc(read->text, read->room = 2 * read->room + 256);
            if (!longer) return 0;
            read->text = longer;
        }
        if (letter == '\n') break;
        read->text[read->length++] = (char)letter;
    }
    if (letter == EOF && !read->length) return 0;
    if (read->length && read->text[read->length - 1] == '\r') read->length--;
    read->text[read->length] = 0;
    return 1;
}


static void print_escaped(const char *text) {
    for (; *text; text++) {
        const unsigned char letter = (unsigned char)*text;
        if (letter == '"' || letter == '\\') printf("\\%c", letter);
        else if (letter < 32) printf("\\u%04x", letter);
        else putchar(letter);
    }
}


static void print_string(const char *before, const char *text) {
    printf("%s\"", before);
    print_escaped(text);
    putchar('"');
}


static void print_number(float value) {
    if (isfinite(value)) printf("%.9g", (double)value);
    else printf("null");
}


/* Some columns of a row; all of them if there are none. */
static void print_row(const float *values, long width, const long *columns, long count) {
    putchar('[');
    for (long i = 0; i < (count ? count : width); i++) {
        if (i) printf(", ");
        print_number(values[count ? columns[i] : i]);
    }
    putchar(']');
}


/* A result: a number, a row or several, at some places or all. */
static void print_result(const results *all, int number, const long *places, long count,
                         const long *columns, long some) {
    const float *values = all->values[number];
    const long width = all->width[number], rows = AXES[number] > 2 ? all->rows[number] : 1;
    if (AXES[number] == 1) {
        print_number(*values);
        return;
    }
    if (AXES[number] == 2) {
        print_row(values, width, columns, some);
        return;
    }
    putchar('[');
    for (long i = 0; i < (count ? count : rows); i++) {
        if (i) printf(", ");
        print_row(values + (count ? places[i] : i) * width, width, columns, some);
    }
    putchar(']');
}


/* Whole numbers from text[at] on, as far as they go, at most so many; where they end in at. */
static long numbers(const char *text, size_t *at, long *values, long most) {
    long count = 0;
    for (; count < most; count++) {
        while (text[*at] == ' ' || text[*at] == ',' || text[*at] == '[') ++*at;
        if (text[*at] < '0' || text[*at] > '9') break;
        char *end;
        const long value = strtol(text + *at, &end, 10);
        values[count] = value;
        *at = (size_t)(end - text);
    }
    return count;
}


/* The value of a field of a JSON object, or NULL. */
static const char *field(const char *json, const char *name) {
    const size_t length = strlen(name);
    int depth = 0, key = 1;
    for (; *json; json++) {
        if (*json == '"') {
            const char *begin = ++json;
            while (*json && *json != '"') json += *json == '\\' && json[1] ? 2 : 1;
            if (!*json) return NULL;
            const int same = (size_t)(json - begin) == length && !strncmp(begin, name, length);
            if (depth == 1 && key && same) {
                for (json++; *json == ' ' || *json == ':'; json++) continue;
                return json;
            }
        } else if (*json == '{' || *json == '[') {
            depth++;
        } else if (*json == '}' || *json == ']') {
            depth--;
        }
        if (depth == 1 && (*json == ':' || *json == ',')) key = *json == ',';
    }
    return NULL;
}


/* A string of JSON as UTF-8 in place of its beginning; -1 if it is none. */
static long plain_text(char *json) {
    static const char *const HEX = "0123456789abcdefABCDEF";
    char *to = json, *from = json + 1;
    if (*json != '"') return -1;
    while (*from != '"') {
        if (!*from) return -1;
        if (*from != '\\') {
            *to++ = *from++;
            continue;
        }
        const char *escapes = strchr("\"\"\\\\//b\bf\fn\nr\rt\t", from[1]);
        if (from[1] && from[1] != 'u' && escapes) *to++ = escapes[1];
        if (from[1] != 'u' && !escapes) return -1;
        from += 2;
        if (from[-1] != 'u') continue;
        unsigned point = 0, low = 0;
        if (strspn(from, HEX) < 4 || sscanf(from, "%4x", &point) != 1) return -1;
        from += 4;
        if (point >> 10 == 0x36 && !strncmp(from, "\\u", 2) && strspn(from + 2, HEX) >= 4 &&
            sscanf(from + 2, "%4x", &low) == 1 && low >> 10 == 0x37) {
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
            from += 6;
        }
        const int more = (point > 0x7F) + (point > 0x7FF) + (point > 0xFFFF);
        static const unsigned MARKS[] = {0, 0xC0, 0xE0, 0xF0};
        *to++ = (char)(MARKS[more] | point >> 6 * more);
        for (int k = more - 1; k >= 0; k--) *to++ = (char)(0x80 | (point >> 6 * k & 0x3F));
    }
    return to - json;
}


/* Token ids and segments of a row: those after --ids, or in a request of a proof. */
static long given_row(bertc *model, const char *ids, const char *segments, size_t bytes, int *error) {
    const long most = (long)bytes / 2 + 2;
    long *values = malloc((size_t)most * 2 * sizeof(long));
    size_t at = 0, end = 0;
    *error = !values || make_row(model, most) ? NO_MEMORY : 0;
    const long n = *error ? 0 : numbers(ids, &at, values, most);
    const long count = *error || !segments ? 0 : numbers(segments, &end, values + most, most);
    if (!*error && (!strchr("\t]", ids[at]) || (segments && !strchr("]", segments[end])) ||
                    (count && count != n))) *error = NOT_A_REQUEST;
    for (long i = 0; i < n && !*error; i++) {
        const long segment = count ? values[most + i] : 0;
        if (values[i] >= TOKENS || segment >= SEGMENTS) *error = NO_SUCH_TOKEN;
        model->ids[i] = (int32_t)values[i];
        model->segments[i] = (int32_t)segment;
    }
    free(values);
    return n;
}


/* --ids: token ids, and after a tab segments, to all results by their names. */
static int answer_ids(bertc *model, line *read) {
    const char *tab = strchr(read->text, '\t');
    int error;
    const long n = given_row(model, read->text, tab ? tab + 1 : NULL, read->length, &error);
    if (!error) error = run_row(model, n, ~0u, &model->results);
    if (error) return error;
    for (int number = 0; number < RESULTS; number++) {
        printf("%s\"%s\": ", number ? ", " : "{", NAMES[number]);
        print_result(&model->results, number, NULL, 0, NULL, 0);
    }
    printf("}\n");
    return 0;
}


/* --proof: a request of bertc verify to tokens, states, vectors and scores at some places. */
static int answer_proof(bertc *model, line *read) {
    const char *request = read->text, *ids = field(request, "ids"), *at = field(request, "positions");
    const char *segments = field(request, "segments"), *columns = field(request, "columns");
    const char *text_at = field(request, "text"), *pair_at = field(request, "pair");
    const long most = (long)read->length;
    long *places = malloc((size_t)(2 * most) * sizeof(long) + 1), *some = places ? places + most : NULL;
    int error = !places ? NO_MEMORY : ids && at && text_at ? 0 : NOT_A_REQUEST, opened = 0;
    size_t end = 0;
    const long count = error ? 0 : numbers(at, &end, places, most);
    long n = error ? 0 : given_row(model, ids, segments, read->length, &error);
    const long given = n;
    if (TOKENIZES && !error) {
        char *text = read->text + (text_at - request);
        char *pair = pair_at ? read->text + (pair_at - request) : NULL;
        const long bytes = plain_text(text), more = pair ? plain_text(pair) : 0;
        if (bytes < 0 || more < 0) error = NOT_A_REQUEST;
        else n = read_text(model, text, (size_t)bytes, pair, (size_t)more, LONGEST, NULL);
    }
    if (!error) error = n < 0 ? (int)-n : run_row(model, n, ~0u, &model->results);
    for (long i = 0; i < n && !error; i++)
        printf("%s%ld", i ? ", " : "{\"tokens\": [", (long)model->ids[i]);
    int same = !error && n == given && (end = 0, numbers(ids, &end, some, most)) == n;
    for (long i = 0; i < n && same; i++) same = some[i] == model->ids[i];
    for (long i = 0; i < count && same; i++) same = places[i] < n;
    if (!error) putchar(']');
    for (int number = 0; number < RESULTS && same; number++) {
        const char role = ROLES[number];
        if (role != 't' && role != 'p') continue;
        if (role == 'p') printf(", \"pooled\": ");
        else printf("%s", number == 0 ? ", \"embeddings\": " : number == 1 ? ", \"layers\": [" : ", ");
        print_result(&model->results, number, places, count, some, 0);
        if (role == 't' && number && ROLES[number + 1] != 't') putchar(']');
    }
    for (int number = 0; number < RESULTS && same; number++) {
        const char *wanted = columns && *columns == '{' ? field(columns, NAMES[number]) : NULL;
        if (ROLES[number] != 's') continue;
        printf("%s\"%s\": ", opened++ ? ", " : ", \"scores\": {", NAMES[number]);
        const long width = wanted ? (end = 0, numbers(wanted, &end, some, most)) : 0;
        for (long i = 0; i < width; i++) some[i] = some[i] < model->results.width[number] ? some[i] : 0;
        print_result(&model->results, number, places, count, some, width);
    }
    if (!error) printf(opened ? "}}\n" : "}\n");
    free(places);
    return error;
}


/* The likeliest tokens of a row of scores, which it changes. */
static void print_likeliest(float *row, long width) {
    /* Rows of the table that no token has are no answers. */
    for (long i = 0; i < width; i++)
        if (!tokenizer_token((int32_t)i)) row[i] = -1e30f;
    softmax(row, width, 1, width, row);
    for (int rank = 0; rank < TOP && rank < width; rank++) {
        long best = 0;
        for (long i = 1; i < width; i++) best = row[i] > row[best] ? i : best;
        const char *token = tokenizer_token((int32_t)best);
        print_string(rank ? ", {\"token\": " : "[{\"token\": ", token ? token : "");
        printf(", \"probability\": %.6f}", (double)row[best]);
        row[best] = -1.0f;
    }
    putchar(']');
}


/* How many special tokens are before a text and in all, and whether a space changes a word. */
static int frame(bertc *model, long *before, long *specials, int *spaced) {
    static const char *const TEXTS[] = {"", "a", " a"};
    int32_t ids[3][16];
    long counts[3];
    for (int i = 0; i < 3; i++) {
        counts[i] = read_text(model, TEXTS[i], strlen(TEXTS[i]), NULL, 0, 16, NULL);
        if (counts[i] < 0) return (int)-counts[i];
        memcpy(ids[i], model->ids, (size_t)counts[i] * sizeof(int32_t));
    }
    for (*before = 0; *before < counts[0] && ids[0][*before] == ids[1][*before];) ++*before;
    *specials = counts[0];
    *spaced = counts[1] != counts[2] || memcmp(ids[1], ids[2], (size_t)counts[1] * sizeof(int32_t));
    return 0;
}


/* The bytes of the character of white space that a text begins with, or 0. */
static size_t blank(const char *text) {
    static const char *const WIDE[] = {
        "\302\205", "\302\240", "\341\232\200", "\342\200\250", "\342\200\251", "\342\200\257",
        "\342\201\237", "\343\200\200"};
    if (*text && strchr(" \t\n\v\f\r\034\035\036\037", *text)) return 1;
    if (!strncmp(text, "\342\200", 2) && (text[2] & 0x7F) <= 10 && text[2]) return 3;
    for (size_t i = 0; i < sizeof WIDE / sizeof *WIDE; i++)
        if (!strncmp(text, WIDE[i], strlen(WIDE[i]))) return strlen(WIDE[i]);
    return 0;
}


/* Where a word is in a text from there on; the end of the text if it is nowhere. */
static size_t next_place(const char *word, const char *text, size_t at, size_t bytes) {
    const size_t size = strlen(word);
    while (at < bytes && (bytes - at < size || memcmp(text + at, word, size))) at++;
    return at;
}


/* A text with its masks, [MASK], as the tokenizer spells them. */
static char *with_masks(const line *read, size_t *bytes) {
    const size_t size = sizeof SPELLED_MASK - 1, plain = sizeof "[MASK]" - 1;
    char *text = malloc((read->length / plain + 1) * size + read->length + 1), *to = text;
    for (size_t at = 0; text && at < read->length; at += plain) {
        const size_t next = next_place("[MASK]", read->text, at, read->length);
        memcpy(to, read->text + at, next - at);
        to += next - at;
        if (next < read->length) memcpy(to, SPELLED_MASK, size);
        if (next < read->length) to += size;
        at = next;
    }
    if (text) *to = 0;
    *bytes = (size_t)(to - text);
    return text;
}


/* The end of a text without white space. */
static size_t trimmed(const char *text, size_t bytes) {
    size_t end = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t space = blank(text + at);
        at += space ? space : 1;
        if (!space) end = at;
    }
    return end;
}


/* The bytes of a decoder's text without white space and a mask that it ends with; its end if there
 * are others in it. */
static int begun(const char *text, size_t *bytes) {
    const size_t size = sizeof SPELLED_MASK - 1;
    *bytes = trimmed(text, *bytes);
    if (size <= *bytes && !memcmp(text + *bytes - size, SPELLED_MASK, size))
        *bytes = trimmed(text, *bytes - size);
    return next_place(SPELLED_MASK, text, 0, *bytes) < *bytes ? NOT_A_REQUEST : 0;
}


/* The likeliest tokens of every mask, of a decoder those after the text. A row has as much of the
 * text before a mask as behind it, or more where the text begins or ends. */
static int answer_fill(bertc *model, line *read) {
    long before = 0, specials = 0, ran = -1;
    int spaced, masks = 0, error = frame(model, &before, &specials, &spaced);
    size_t bytes;
    char *text = with_masks(read, &bytes);
    if (!error) error = text ? 0 : NO_MEMORY;
    if (!error && KIND == 'c') error = begun(text, &bytes);
    const long n = error ? 0 : read_text(model, text, bytes, NULL, 0, 1 << 20, NULL);
    free(text);
    if (error || n < 0) return error ? error : (int)-n;
    const long inner = n - specials, around = RUNNING ? 0 : 2, lead = around / 2;
    const long room = smaller_whole(READS, inner + around) - around;
    if (KIND == 'c' && inner < 1) return NO_TOKENS;
    if (room < 1 && inner > 0) return TOO_LONG;
    int32_t *ids = malloc((size_t)inner * sizeof *ids + 1);
    if (!ids) return NO_MEMORY;
    memcpy(ids, model->ids + before, (size_t)inner * sizeof *ids);
    model->cut |= inner > room;
    if (make_row(model, room + around)) error = NO_MEMORY;
    for (long place = 0; place < inner && !error; place++) {
        if (KIND == 'c' ? place < inner - 1 : ids[place] != MASK) continue;
        const long start = larger_whole(0, smaller_whole(place - room / 2, inner - room));
        if (start != ran) { /* of a short text one row has all */
            const long end = lead + room;
            memset(model->segments, 0, (size_t)(room + around) * sizeof *ids);
            memcpy(model->ids + lead, ids + start, (size_t)room * sizeof *ids);
            if (lead) model->ids[0] = FIRST;
            if (lead) model->ids[end] = LAST;
            error = run_row(model, KIND == 'c' ? end : end + lead, 1u << GROUPS[ANSWER],
                            &model->results);
            if (error) break;
            ran = start;
        }
        const long width = model->results.width[ANSWER];
        printf(masks++ ? ", " : "{\"masks\": [");
        print_likeliest(model->results.values[ANSWER] + (lead + place - start) * width, width);
    }
    free(ids);
    if (!error) printf(masks ? "]}\n" : "{\"masks\": []}\n");
    return error;
}


/* The words of a text, or its letters, without white space. */
typedef struct {
    int32_t *ids;       /* of all words, in a row */
    long *firsts;       /* the first token of every word; -1 of one that has none */
    int *tags;
    float *likely;
    long count, tokens;
} sentence;


/* The next word of a text, or letter: its bytes, 0 at the end. */
static size_t next_word(const char **text) {
    size_t size = 0;
    while ((size = blank(*text))) *text += size;
    for (size = 0; (*text)[size] && !blank(*text + size); size++)
        if (LETTERS && size && ((*text)[size] & 0xC0) != 0x80) break;
    return size;
}


static int read_words(bertc *model, const char *text, size_t bytes, long before, long specials,
                      int spaced, sentence *all) {
    char *word = malloc(bytes + 2);
    size_t room = 0;
    int error = word ? 0 : NO_MEMORY;
    for (size_t size; !error && (size = next_word(&text)); text += size) {
        const size_t more = spaced && all->count; /* the blank before it */
        word[0] = ' ';
        memcpy(word + more, text, size);
        const long n = read_text(model, word, size + more, NULL, 0, 1 << 20, NULL), own = n - specials;
        if (own < 0) {
            error = n < 0 ? (int)-n : DAMAGED;
            break;
        }
        all->firsts[all->count++] = own ? all->tokens : -1;
        if ((size_t)(all->tokens + own) > room) {
            room = 2 * (size_t)(all->tokens + own);
            int32_t *longer = realloc(all->ids, room * sizeof *longer);
            if (longer) all->ids = longer;
            else error = NO_MEMORY;
        }
        if (own && !error)
            memcpy(all->ids + all->tokens, model->ids + before, (size_t)own * sizeof *all->ids);
        all->tokens += own;
    }
    free(word);
    return error;
}


/* The likeliest tags of words from the first tokens of a window on, which is in the results. */
static void read_tags(float *scores, long width, long shift, long word, long end, sentence *all) {
    int other = 0;
    for (int i = 0; i < width; i++) other = strcmp(LABELS[i], "O") ? other : i;
    for (; word < end; word++) {
        const long first = all->firsts[word];
        float *row = scores + (first < 0 ? 0 : first + shift) * width;
        float likely[sizeof LABELS / sizeof *LABELS];
        int best = 0;
        for (int i = 1; i < width; i++) best = row[i] > row[best] ? i : best;
        softmax(row, width, 1, width, likely);
        all->tags[word] = first < 0 ? other : best;
        all->likely[word] = likely[best];
    }
}


/* The tags of words, from the row of the window that has more of the text around each. A window
 * begins with a word; words behind the last one read stay without. */
static int tag_words(bertc *model, long before, long specials, const int32_t *around, sentence *all) {
    const long room = READS - specials;
    model->cut |= !STRIDE && all->tokens > room;
    long word = 0, most = -1, read = 0, error = 0;
    for (long i = 0; i < all->count; i++)
        if (all->firsts[i] >= 0 && (STRIDE || all->firsts[i] < room)) read = i + 1;
    for (long start = 0, next = -1; !error && next; start = next) {
        const long end = smaller_whole(start + room, all->tokens);
        const long later = start + smaller_whole(room, STRIDE);
        next = STRIDE && end < all->tokens ? later : 0;
        long begin = 0;
        for (long i = 0; i < all->count && all->firsts[i] <= later; i++)
            begin = larger_whole(begin, all->firsts[i]);
        if (next && begin > start) next = begin;
        const long n = end - start + specials, middle = next ? (next + end) / 2 : all->tokens;
        if (make_row(model, n)) return NO_MEMORY;
        memcpy(model->ids, around, (size_t)before * sizeof *around);
        if (end > start)
            memcpy(model->ids + before, all->ids + start, (size_t)(end - start) * sizeof *around);
        memcpy(model->ids + before + end - start, around + before,
               (size_t)(specials - before) * sizeof *around);
        memset(model->segments, 0, (size_t)n * sizeof(int32_t));
        error = run_row(model, n, 1u << GROUPS[ANSWER], &model->results);
        long last = word;
        while (last < read && larger_whole(most, all->firsts[last]) < middle)
            most = larger_whole(most, all->firsts[last++]);
        if (!error)
            read_tags(model->results.values[ANSWER], model->results.width[ANSWER], before - start, word,
                      last, all);
        word = last;
    }
    return (int)error;
}


/* A tagger: the likeliest tag of every word, from its first token; of one without that is read O,
 * or the first tag. */
static int answer_tags(bertc *model, line *read) {
    const size_t most = read->length + 1;
    sentence all = {NULL, malloc(most * sizeof(long)), calloc(most, sizeof(int)),
                    calloc(most, sizeof(float)), 0, 0};
    int32_t around[16];
    long before = 0, specials = 0;
    int spaced = 0, error = all.firsts && all.tags && all.likely ? 0 : NO_MEMORY;
    if (!error) error = frame(model, &before, &specials, &spaced);
    if (!error) error = specials > 15 || specials >= READS ? TOO_LONG : 0;
    if (!error && read_text(model, "", 0, NULL, 0, READS, NULL) != specials) error = NO_TOKENS;
    if (!error) memcpy(around, model->ids, (size_t)specials * sizeof *around);
    if (!error) error = read_words(model, read->text, read->length, before, specials, spaced, &all);
    for (int i = 0; KIND == 't' && LABELS[0] && i < (int)(sizeof LABELS / sizeof *LABELS); i++)
        for (long word = 0; word < all.count && !strcmp(LABELS[i], "O"); word++) all.tags[word] = i;
    if (!error) error = tag_words(model, before, specials, around, &all);
    if (!error) printf(LETTERS ? "{\"tags\": \"" : "{\"tags\": [");
    for (long word = 0; word < all.count && !error; word++) {
        const char *tag = LABELS[all.tags[word]];
        if (LETTERS) print_escaped(tag);
        else print_string(word ? ", " : "", tag);
    }
    if (!error) printf(LETTERS ? "\", \"probabilities\": [" : "], \"probabilities\": [");
    for (long word = 0; word < all.count && !error; word++)
        printf("%s%.6f", word ? ", " : "", (double)all.likely[word]);
    if (!error) printf("]}\n");
    free(all.ids);
    free(all.firsts);
    free(all.tags);
    free(all.likely);
    return error;
}


/* A text, or two with a tab between. */
static int answer_text(bertc *model, line *read) {
    char *tab = memchr(read->text, '\t', read->length);
    const size_t bytes = tab ? (size_t)(tab - read->text) : read->length;
    bertc_answer answer;
    const int error = bertc_run(model, read->text, bytes, tab ? tab + 1 : NULL,
                                tab ? read->length - bytes - 1 : 0, &answer);
    if (error) return error;
    const float *values = answer.values;
    long best = 0;
    for (long i = 1; i < answer.width; i++) best = values[i] > values[best] ? i : best;
    if (KIND == 'l') print_string("{\"label\": ", LABELS[best]);
    if (KIND == 'm') {
        int several = 0;
        printf("{\"labels\": [");
        for (long i = 0; i < answer.width; i++)
            if (values[i] > LEAST[i]) print_string(several++ ? ", " : "", LABELS[i]);
        putchar(']');
    }
    if (KIND == 'l' || KIND == 'm') {
        for (long i = 0; i < answer.width; i++) {
            print_string(i ? ", " : ", \"probabilities\": {", LABELS[i]);
            printf(": %.6f", (double)values[i]);
        }
        printf("}}\n");
        return 0;
    }
    if (KIND == 'i') { /* sparse: the ids of tokens whose weight is not zero, and the weights */
        for (int weights = 0; weights < 2; weights++) {
            const char *comma = "";
            printf(weights ? "], \"weights\": [" : "{\"indices\": [");
            for (long i = 0; i < answer.width; i++) {
                if (values[i] == 0.0f) continue;
                printf("%s", comma);
                if (weights) print_number(values[i]);
                else printf("%ld", i);
                comma = ", ";
            }
        }
        printf("]}\n");
        return 0;
    }
    printf("{\"%s\": ", KIND == 'v' ? "vector" : KIND == 's' ? "score" : answer.name);
    print_result(&model->results, ANSWER, NULL, 0, NULL, 0);
    printf("}\n");
    return 0;
}


/* Where a text is not UTF-8. */
static size_t bad_byte(const char *text, size_t bytes) {
    const unsigned char *all = (const unsigned char *)text;
    size_t at = 0;
    for (size_t size = 1; size <= 4 && at + size <= bytes; size++)
        if (is_utf8(all + at, size)) at += size, size = 0;
    return at;
}


/* What is wrong with a line. */
static void say_error(int error, long number, const line *read) {
    fprintf(stderr, "error: line %ld: %s", number, bertc_error(error));
    const size_t at = error == NOT_UTF8 ? bad_byte(read->text, read->length) : read->length;
    if (at < read->length)
        fprintf(stderr, ": byte %lu is 0x%02x; iconv converts other encodings", (unsigned long)at + 1,
                (unsigned)(unsigned char)read->text[at]);
    fprintf(stderr, "\n");
}


static int usage(FILE *to, const char *program) {
    fprintf(to, "usage: %s [--ids | --proof]%s < lines\n", program, INSIDE ? "" : " [" WEIGHTS "]");
    fprintf(to, "A line is a text, or two with a tab between; its answer is a line of JSON.\n");
    fprintf(to, "--ids: token ids, after a tab segments; --proof: requests of bertc verify\n");
    return to == stdout ? 0 : 2;
}


int main(int count, char **arguments) {
    const char *mode = count > 1 && arguments[1][0] == '-' ? arguments[1] : "";
    const int named = count - 1 - (*mode != 0);
    const char *path = named > 0 ? arguments[count - 1] : WEIGHTS;
    int (*answer)(bertc *, line *) = KIND == 't'                  ? answer_tags
                                     : KIND == 'c' || KIND == 'f' ? answer_fill
                                                                  : answer_text;
    if (!strcmp(mode, "--help") || !strcmp(mode, "-h")) return usage(stdout, arguments[0]);
    if (!strcmp(mode, "--ids")) answer = answer_ids;
    else if (!strcmp(mode, "--proof")) answer = answer_proof;
    else if (*mode) return usage(stderr, arguments[0]);
    if (named > !INSIDE) return usage(stderr, arguments[0]);
    line read = {NULL, 0, 0};
    bertc *model;
    int error = bertc_open(path, &model);
    long number = 0, cuts = 0, first = 0;
    if (error) fprintf(stderr, "error: %s: %s\n", path, bertc_error(error));
    while (!error && next_line(stdin, &read)) {
        if (!number++ && !strncmp(read.text, "\357\273\277", 3)) /* a mark of UTF-8 */
            memmove(read.text, read.text + 3, (read.length -= 3) + 1);
        model->cut = 0;
        error = answer(model, &read);
        if (error) say_error(error, number, &read);
        if (!cuts && model->cut) first = number;
        cuts += model->cut;
    }
    if (cuts && !*mode)
        fprintf(stderr, "%ld of %ld lines are cut to %ld tokens, the first is line %ld\n", cuts, number,
                (long)READS, first);
    const int unwritten = fflush(stdout) || ferror(stdout);
    if (unwritten) fprintf(stderr, "error: the answers cannot be written\n");
    free(read.text);
    bertc_close(model);
    return error || unwritten;
}
#endif
