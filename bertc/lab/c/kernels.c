/* Vectors of the machine's registers, where the compiler has them. */
#if defined(__GNUC__) && defined(__AVX512F__)
enum { LANES = 16, ROWS = 12 };
#elif defined(__GNUC__) && defined(__AVX2__)
enum { LANES = 8, ROWS = 6 };
#elif defined(__GNUC__)
enum { LANES = 4, ROWS = 6 };
#else
enum { LANES = 1, ROWS = 4 };
#endif
#ifdef __GNUC__
typedef float vector __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
#else
typedef float vector;
#endif
enum { PANEL = 16, TILE = 2 * LANES, QUERIES = 48 };


static inline float larger(float a, float b) { return a > b ? a : b; }


static inline float smaller(float a, float b) { return a < b ? a : b; }


static inline long larger_whole(long a, long b) { return a > b ? a : b; }


static inline long smaller_whole(long a, long b) { return a < b ? a : b; }


static inline float square(float x) { return x * x; }


/* The next multiple of the numbers of a panel, which is also a line of the cache. */
static long padded(long count) { return (count + PANEL - 1) / PANEL * PANEL; }


/* e to the x: 2 to the nearest whole power, times a polynomial of what is left. */
static inline float exp_of(float x) {
    const float within = smaller(larger(x, -87.0f), 88.0f);
    const float power = (within * 1.44269504f + 12582912.0f) - 12582912.0f;
    const float rest = (within - power * 0.693145752f) - power * 1.42860677e-6f;
    float sum = 1.98756915e-4f;
    sum = sum * rest + 1.39819995e-3f;
    sum = sum * rest + 8.33345190e-3f;
    sum = sum * rest + 4.16657962e-2f;
    sum = sum * rest + 1.66666655e-1f;
    sum = sum * rest + 5.00000000e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    const union { int32_t bits; float value; } scale = {((int32_t)power + 127) * (1 << 23)};
    return x < -87.0f ? 0.0f : sum * scale.value;
}


static inline float sigmoid(float x) { return 1.0f / (1.0f + exp_of(-x)); }


static inline float silu(float x) { return x * sigmoid(x); }


static inline float tanh_of(float x) {
    const float squared = x * x, power = exp_of(-2.0f * fabsf(x));
    const float near = x - x * squared * (0.333333333f - squared * 0.133333333f);
    const float far = copysignf((1.0f - power) / (1.0f + power), x);
    return squared < 0.0025f ? near : far;
}


/* Abramowitz and Stegun, 7.1.26: within 1.5e-7. */
static inline float erf_of(float x) {
    const float t = 1.0f / (1.0f + 0.3275911f * fabsf(x));
    float sum = 1.061405429f;
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    return copysignf(1.0f - sum * t * exp_of(-x * x), x);
}


static inline float gelu(float x) { return 0.5f * x * (1.0f + erf_of(0.707106781f * x)); }


static inline float gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanh_of(0.797884561f * (x + 0.044715f * x * x * x)));
}


/* The sum of f(x) for all x of a row, in as many parts as a panel has numbers. */
#define SUM(total, count, f)                                                                      \
    float total = 0.0f;                                                                           \
    do {                                                                                          \
        float parts[PANEL] = {0.0f};                                                              \
        const long even = (count) - (count) % PANEL;                                              \
        for (long at = 0; at < even; at += PANEL)                                                 \
            for (long part = 0; part < PANEL; part++) {                                           \
                const long i = at + part;                                                         \
                parts[part] += (f);                                                               \
            }                                                                                     \
        for (long i = even; i < (count); i++) parts[0] += (f);                                    \
        for (long part = 0; part < PANEL; part++) total += parts[part];                           \
    } while (0)


/* y = (x - mean) / deviation * weight + bias in every row. */
static void layer_norm(const float *x, long step, long rows, long width, const float *weight,
                       const float *bias, float eps, float *y) {
    for (long row = 0; row < rows; row++, x += step, y += width) {
        SUM(sum, width, x[i]);
        const float mean = sum / (float)width;
        SUM(squares, width, square(x[i] - mean));
        const float scale = 1.0f / sqrtf(squares / (float)width + eps);
        for (long i = 0; i < width; i++) y[i] = (x[i] - mean) * scale;
        if (weight) for (long i = 0; i < width; i++) y[i] *= weight[i];
        if (bias) for (long i = 0; i < width; i++) y[i] += bias[i];
    }
}


/* y = x / root of the mean square * weight in every row. */
static void rms_norm(const float *x, long step, long rows, long width, const float *weight,
                     float eps, float *y) {
    for (long row = 0; row < rows; row++, x += step, y += width) {
        SUM(squares, width, square(x[i]));
        const float scale = 1.0f / sqrtf(squares / (float)width + eps);
        for (long i = 0; i < width; i++) y[i] = x[i] * scale;
        if (weight) for (long i = 0; i < width; i++) y[i] *= weight[i];
    }
}


static float largest(const float *x, long width) {
    float parts[PANEL], all = -INFINITY;
    const long even = width - width % PANEL;
    for (long part = 0; part < PANEL; part++) parts[part] = -INFINITY;
    for (long i = 0; i < even; i += PANEL)
        for (long part = 0; part < PANEL; part++) parts[part] = larger(parts[part], x[i + part]);
    for (long i = even; i < width; i++) all = larger(all, x[i]);
    for (long part = 0; part < PANEL; part++) all = larger(all, parts[part]);
    return all;
}


/* The powers of a row over their sum; zeros where all of it is masked. */
static void softmax(const float *x, long step, long rows, long width, float *y) {
    for (long row = 0; row < rows; row++, x += step, y += width) {
        const float most = larger(largest(x, width), -3.0e38f);
        for (long i = 0; i < width; i++) y[i] = exp_of(x[i] - most);
        SUM(sum, width, y[i]);
        const float scale = sum > 0.0f ? 1.0f / sum : 0.0f;
        for (long i = 0; i < width; i++) y[i] *= scale;
    }
}


static void log_softmax(const float *x, long step, long rows, long width, float *y) {
    for (long row = 0; row < rows; row++, x += step, y += width) {
        const float most = largest(x, width);
        SUM(sum, width, exp_of(x[i] - most));
        const float less = most + logf(sum);
        for (long i = 0; i < width; i++) y[i] = x[i] - less;
    }
}


/* Rows by fours, sixes or twelves, column by column, as products read them. */
static void pack_rows(const float *x, long step, long rows, long inner, float *packed) {
    for (long first = 0; first < rows; first += ROWS, packed += ROWS * inner)
        for (long row = 0; row < ROWS; row++)
            for (long k = 0; k < inner; k++)
                packed[k * ROWS + row] = first + row < rows ? x[(first + row) * step + k] : 0.0f;
}


/* A block of rows times two vectors of columns of a matrix, in registers from end to end. */
static inline void tile(const float *x, long inner, const float *left, const float *right,
                        float *y) {
    vector sums[ROWS][2];
    memset(sums, 0, sizeof sums);
    for (long k = 0; k < inner; k++, x += ROWS, left += PANEL, right += PANEL) {
        const vector a = *(const vector *)left, b = *(const vector *)right;
        for (int row = 0; row < ROWS; row++) {
            sums[row][0] += x[row] * a;
            sums[row][1] += x[row] * b;
        }
    }
    memcpy(y, sums, sizeof sums);
}


/* y (rows, outer) = packed rows times panels of a matrix (outer, inner), and a bias. */
static void product(const float *packed, long rows, long inner, const float *panels,
                    const float *bias, long outer, float *y, long y_step) {
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (rows * outer * inner > 1000000)
#endif
    for (long column = 0; column < outer; column += TILE) {
        const long end = padded(outer), other = smaller_whole(column + LANES, end - LANES);
        const float *left = panels + column / PANEL * PANEL * inner + column % PANEL;
        const float *right = panels + other / PANEL * PANEL * inner + other % PANEL;
        const long columns = smaller_whole(TILE, outer - column);
        for (long first = 0; first < rows; first += ROWS) {
            float sums[ROWS * TILE];
            tile(packed + first * inner, inner, left, right, sums);
            const long count = smaller_whole(ROWS, rows - first);
            for (long row = 0; row < count; row++) {
                float *to = y + (first + row) * y_step + column;
                for (long i = 0; i < columns; i++) to[i] = sums[row * TILE + i];
                if (bias) for (long i = 0; i < columns; i++) to[i] += bias[column + i];
            }
        }
    }
}


static long linear_scratch(long rows, long inner) { return (rows + ROWS) * inner; }


/* y = x times a matrix, which is stored in panels of rows, and a bias. */
static void linear(const float *x, long step, long rows, long inner, const float *panels,
                   const float *bias, long outer, float *y, float *scratch) {
    pack_rows(x, step, rows, inner, scratch);
    product(scratch, rows, inner, panels, bias, outer, y, outer);
}


/* Whole numbers from -128 to 127. Where the machine sums products of four bytes at once they are
 * bytes with 128 added, four of a row side by side; where it sums products of two, those of 16 bits,
 * first and third, second and fourth; else numbers with a fraction. */
#ifdef __GNUC__
typedef int32_t fours __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef uint32_t bits __attribute__((vector_size(LANES * sizeof(float))));
typedef int16_t halves __attribute__((vector_size(LANES * sizeof(float))));
typedef uint16_t half_bits __attribute__((vector_size(LANES * sizeof(float))));
#define FLOATS(x) __builtin_convertvector(x, vector)
#else
typedef int32_t fours;
typedef uint32_t bits;
#define FLOATS(x) ((float)(x))
#endif
#if defined(__GNUC__) && defined(__AVX512BW__)
#include <immintrin.h>
#define PAIRS(x, w) (fours)_mm512_madd_epi16(_mm512_set1_epi32(x), (__m512i)(w))
#elif defined(__GNUC__) && defined(__AVX2__) && !defined(__AVX512F__)
#include <immintrin.h>
#define PAIRS(x, w) (fours)_mm256_madd_epi16(_mm256_set1_epi32(x), (__m256i)(w))
#elif defined(__GNUC__) && defined(__SSE2__) && !defined(__AVX2__)
#include <emmintrin.h>
#define PAIRS(x, w) (fours)_mm_madd_epi16(_mm_set1_epi32(x), (__m128i)(w))
#elif defined(__GNUC__) && defined(__wasm_simd128__)
#include <wasm_simd128.h>
#define PAIRS(x, w) (fours)wasm_i32x4_dot_i16x8(wasm_i32x4_splat(x), (v128_t)(w))
#endif
#ifdef __AVX512VNNI__
typedef uint8_t number;
typedef int32_t total;
typedef fours totals;
enum { WIDE = 4 };
#define NUMBER(x) ((number)((int)(x) + 128))
#define TOTAL(sum, row) ((float)((sum) - 128 * (row)))
#define DOT(sum, x, w) (fours)_mm512_dpbusd_epi32((__m512i)(sum), _mm512_set1_epi32(x), (__m512i)(w))
#elif defined(PAIRS)
typedef int16_t number;
typedef int32_t total;
typedef fours totals;
enum { WIDE = 2 };
#define NUMBER(x) ((number)(x))
#define TOTAL(sum, row) ((float)(sum))
#else
typedef float number, total;
typedef vector totals;
enum { WIDE = 1 };
#define NUMBER(x) (x)
#define TOTAL(sum, row) (sum)
/* One of the four bytes of each word, from the lowest on. */
#define PART(word, part) FLOATS((fours)((bits)(word) << (24 - 8 * (part))) >> 24)
#endif
static inline long by_fours(long columns) { return (columns + 3) / 4 * 4; }


/* An entry of an int8 matrix: scales of its rows, their sums, and panels of bytes. */
static inline float int8_entry(const float *matrix, long outer, long inner, long row, long column) {
    const int8_t *bytes = (const int8_t *)(matrix + 2 * padded(outer));
    bytes += (row / PANEL * by_fours(inner) + column / 4 * 4) * PANEL;
    return matrix[row] * (float)bytes[row % PANEL * 4 + column % 4];
}


static long linear_int8_scratch(long rows, long inner) {
    return (rows + ROWS + 2) * by_fours(inner) + 2 * rows;
}


/* Rows as whole numbers times a scale and a middle, in the order in which products read them. */
static void pack_int8(const float *x, long step, long rows, long inner, float *scales,
                      float *scratch, number *packed) {
    const long columns = by_fours(inner);
    number *line = (number *)(scratch + columns);
    for (long i = inner; i < columns; i++) line[i] = NUMBER(0.0f);
    for (long row = 0; row < rows; row++) {
        const float *from = x + row * step;
        for (long i = 0; i < inner; i++) scratch[i] = -from[i];
        const float low = -largest(scratch, inner);
        const float spread = larger(largest(from, inner) - low, 1e-30f), times = 255.0f / spread;
        scales[row] = spread / 255.0f;
        scales[rows + row] = low + 128.0f * scales[row];
        for (long i = 0; i < inner; i++) {
            const float near = ((from[i] - low) * times + 12582912.0f) - 12583040.0f;
            line[i] = NUMBER(smaller(larger(near, -128.0f), 127.0f));
        }
        number *to = packed + row / ROWS * ROWS * columns + row % ROWS * WIDE;
        for (long i = 0; i < columns; i += WIDE) {
            memcpy(to + i * ROWS, WIDE == 2 ? line + i - i % 4 / 2 : line + i, WIDE * sizeof(number));
            if (WIDE == 2) to[i * ROWS + 1] = line[i - i % 4 / 2 + 2];
        }
    }
    for (long row = rows; row % ROWS; row++) {
        number *to = packed + row / ROWS * ROWS * columns + row % ROWS * WIDE;
        for (long i = 0; i < columns; i += WIDE) memset(to + i * ROWS, 0, WIDE * sizeof(number));
    }
}


/* A block of rows of whole numbers times two vectors of columns. */
static inline void tile_int8(const number *x, long columns, const int8_t *left,
                             const int8_t *right, total *y) {
    totals sums[ROWS][2];
    memset(sums, 0, sizeof sums);
    for (long k = 0; k < columns; k += 4, left += 4 * PANEL, right += 4 * PANEL) {
        const fours a = *(const fours *)(const void *)left, b = *(const fours *)(const void *)right;
#ifdef __AVX512VNNI__
        for (int row = 0; row < ROWS; row++, x += 4) {
            int32_t four;
            memcpy(&four, x, sizeof four);
            sums[row][0] = DOT(sums[row][0], four, a);
            sums[row][1] = DOT(sums[row][1], four, b);
        }
#elif defined(PAIRS)
        for (int above = 8; above >= 0; above -= 8) { /* the byte of 16 bits that is multiplied */
            const halves c = (halves)((half_bits)a << above) >> 8;
            const halves d = (halves)((half_bits)b << above) >> 8;
            for (int row = 0; row < ROWS; row++, x += 2) {
                int32_t pair;
                memcpy(&pair, x, sizeof pair);
                sums[row][0] += PAIRS(pair, c);
                sums[row][1] += PAIRS(pair, d);
            }
        }
#else
        for (int part = 0; part < 4; part++, x += ROWS) {
            const vector c = PART(a, part), d = PART(b, part);
            for (int row = 0; row < ROWS; row++) {
                sums[row][0] += x[row] * c;
                sums[row][1] += x[row] * d;
            }
        }
#endif
    }
    memcpy(y, sums, sizeof sums);
}


/* y = x times an int8 matrix, and a bias; rows of x become whole numbers. */
static void linear_int8(const float *x, long step, long rows, long inner, const float *matrix,
                        const float *bias, long outer, float *y, float *scratch) {
    const long columns = by_fours(inner), end = padded(outer);
    const int32_t *of_rows = (const int32_t *)(const void *)(matrix + end);
    const int8_t *panels = (const int8_t *)(matrix + 2 * end);
    float *scales = scratch, *line = scales + 2 * rows;
    number *packed = (number *)(line + 2 * columns);
    pack_int8(x, step, rows, inner, scales, line, packed);
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (rows * outer * inner > 1000000)
#endif
    for (long column = 0; column < outer; column += TILE) {
        const long other = smaller_whole(column + LANES, end - LANES);
        const int8_t *left = panels + column / PANEL * PANEL * columns + column % PANEL * 4;
        const int8_t *right = panels + other / PANEL * PANEL * columns + other % PANEL * 4;
        const long count = smaller_whole(TILE, outer - column);
        for (long first = 0; first < rows; first += ROWS) {
            total sums[ROWS * TILE];
            tile_int8(packed + first * columns, columns, left, right, sums);
            for (long row = 0; row < smaller_whole(ROWS, rows - first); row++) {
                float *to = y + (first + row) * outer + column;
                const total *from = sums + row * TILE;
                const float scale = scales[first + row], middle = scales[rows + first + row];
                for (long i = 0; i < count; i++) {
                    const int32_t sum = of_rows[column + i];
                    to[i] = (TOTAL(from[i], sum) * scale + (float)sum * middle) * matrix[column + i];
                }
                if (bias) for (long i = 0; i < count; i++) to[i] += bias[column + i];
            }
        }
    }
}


static long attention_scratch(long keys, long width) {
    return (padded(keys) + QUERIES) * width + keys * padded(width) +
           QUERIES * padded(keys) + (QUERIES + ROWS) * larger_whole(keys, width);
}


/* A head's keys and values as panels: of keys, and of what a value has for all of them. */
static void attention_keys(const float *keys, long key_step, const float *values, long value_step,
                           long count, long width, float *scratch) {
    float *panels = scratch;
    for (long key = 0; key < padded(count); key++)
        for (long d = 0; d < width; d++)
            panels[key / PANEL * PANEL * width + d * PANEL + key % PANEL] =
                key < count ? keys[key * key_step + d] : 0.0f;
    panels += padded(count) * width;
    for (long d = 0; d < padded(width); d += PANEL)
        for (long key = 0; key < count; key++)
            for (long i = 0; i < PANEL; i++)
                *panels++ = d + i < width ? values[key * value_step + d + i] : 0.0f;
}


/* Scores of some queries for all keys. */
static float *attention_scores(const float *queries, long step, long first, long rows, float scale,
                               long keys, long width, float *scratch) {
    float *scores = scratch + padded(keys) * width + keys * padded(width);
    float *packed = scores + QUERIES * padded(keys);
    pack_rows(queries + first * step, step, rows, width, packed);
    product(packed, rows, width, scratch, NULL, keys, scores, keys);
    for (long i = 0; i < rows * keys; i++) scores[i] *= scale;
    return scores;
}


/* The values of all keys, mixed by the powers of their scores. */
static void attention_mix(float *scores, long rows, long keys, long width, float *y, long y_step,
                          float *scratch) {
    float *packed = scores + QUERIES * padded(keys);
    softmax(scores, keys, rows, keys, scores);
    pack_rows(scores, keys, rows, keys, packed);
    product(packed, rows, keys, scratch + padded(keys) * width, NULL, width, y, y_step);
}


/* y (rows, columns) = a times b, for matrices with any steps from entry to entry. */
static void matmul(const float *a, long a_row, long a_k, const float *b, long b_k, long b_column,
                   long rows, long inner, long columns, float *y) {
    for (long row = 0; row < rows; row++, y += columns) {
        for (long column = 0; column < columns; column++) y[column] = 0.0f;
        for (long k = 0; k < inner; k++) {
            const float times = a[row * a_row + k * a_k];
            for (long column = 0; column < columns; column++)
                y[column] += times * b[k * b_k + column * b_column];
        }
    }
}
