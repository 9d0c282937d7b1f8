/* Tokens of texts, as the tokenizer of the run makes them.
 *
 * Its tables are read where they lie: a magic number, then the offset and the bytes of each
 * section. Whatever is read of a section lies within it, for damaged data too: tokenizer_open
 * looks at each number that leads somewhere else. Errors have the names of the program. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    $sections,
    SECTIONS
};

enum {
$settings};

static struct {
    const unsigned char *at[SECTIONS];
    size_t size[SECTIONS]; /* bytes */
} tables;

static const uint32_t *section(int number) {
    return (const uint32_t *)(const void *)tables.at[number];
}

static size_t count(int number) { return tables.size[number] / sizeof(uint32_t); }

/* A table over code points: the number of a block for every 256, and the blocks. */
enum { POINTS = 0x110000, BLOCK = 256 };

static uint32_t look_up(int table, uint32_t c) {
    return section(table + 1)[section(table)[c / BLOCK] * BLOCK + c % BLOCK];
}

static int is(uint32_t c, int class) { return look_up(CLASSES, c) >> class & 1; }

/* A trie in order of breadth: the first child of each node and of one more, the byte that
 * leads to each node, and the value of each node or -1. Node 0 is the root, no child of any. */
static uint32_t child(int trie, uint32_t node, unsigned char byte) {
    const unsigned char *bytes = tables.at[trie + 1];
    uint32_t low = section(trie)[node], end = section(trie)[node + 1], high = end;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (bytes[middle] < byte) low = middle + 1;
        else high = middle;
    }
    return low < end && bytes[low] == byte ? low : 0;
}

static int32_t value(int trie, uint32_t node) { return (int32_t)section(trie + 2)[node]; }

/* The node that some bytes lead to from the root, 0 if none does. */
static uint32_t follow(int trie, const unsigned char *bytes, size_t size) {
    uint32_t node = 0;
    for (size_t i = 0; i < size; i++)
        if (!(node = child(trie, node, bytes[i]))) break;
    return node;
}

static int all_below(int number, size_t most) {
    for (size_t i = 0; i < count(number); i++)
        if (section(number)[i] >= most) return 0;
    return 1;
}

static int is_table(int table) {
    return count(table) == POINTS / BLOCK && all_below(table, count(table + 1) / BLOCK);
}

static int is_trie(int trie, uint32_t values) {
    const size_t nodes = tables.size[trie + 1];
    if (nodes == 0 || count(trie) != nodes + 1 || count(trie + 2) != nodes) return 0;
    for (uint32_t i = 0; i < nodes; i++)
        if (value(trie, i) < -1 || (int64_t)value(trie, i) >= (int64_t)values) return 0;
    return all_below(trie, nodes + 1);
}

static int are_texts(int starts, int texts) {
    const size_t size = tables.size[texts];
    return count(starts) == VOCABULARY && all_below(starts, size) && tables.at[texts][size - 1] == 0;
}
