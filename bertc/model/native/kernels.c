/* What a training step does on a CPU between its products: each of these reads its input once and
   writes its result once. Arithmetic is in fp32, tensors are of ``value``: bf16 with -DBF16, else
   fp32. No result depends on the number of threads.

   Dropout keeps no mask. Element i of row r stays or goes by a hash of the seed, r and i, so backward
   asks again. A rate is a number of 65536. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>

#define WIDEST 16384 /* elements of a row that is worked on at once */
#define SMALL 16384  /* elements that one thread does alone */
#define BLOCK 128    /* token ids that a draw tells apart at last */

#ifdef BF16
typedef uint16_t value;
static inline float wide(value v) {
  uint32_t bits = (uint32_t)v << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static inline value narrow(float f) { /* to nearest, ties to even; what came from bf16 stays NaN */
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return (value)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#else
typedef float value;
static inline float wide(value v) { return v; }
static inline value narrow(float f) { return f; }
#endif

/* 2^x to 1e-7 of it, where x is from -126 to 64; beyond, what it is there. Above 64 nothing asks for
   more, and 1 / (1 + 2^127), which compilers compute beforehand, is subnormal: a product with it takes
   a hundred cycles on some processors. The polynomial is the best of its degree for 2^f, |f| <= 1/2
   (Remez's algorithm). */
static inline float power_of_2(float x) {
  x = x < -126.0f ? -126.0f : x;
  x = x > 64.0f ? 64.0f : x;
  float k = floorf(x + 0.5f), f = x - k;
  float p = 0.0013276472f;
  p = p * f + 0.009675541f;
  p = p * f + 0.05550713f;
  p = p * f + 0.2402212f;
  p = p * f + 0.69314694f;
  p = p * f + 1.0000001f;
  uint32_t bits = (uint32_t)((int32_t)k + 127) << 23;
  float whole;
  memcpy(&whole, &bits, 4);
  return p * whole;
}
#define LOG2E 1.44269504f
static inline float power(float x) { return power_of_2(x * LOG2E); }

static inline uint32_t mixed(uint32_t x, uint32_t low, uint32_t high) {
  x += low;
  x ^= x >> 16;
  x *= 0x21f0aaadu;
  x ^= x >> 15;
  x += high;
  x *= 0x735a2d97u;
  x ^= x >> 15;
  x *= 0x85ebca6bu;
  x ^= x >> 16;
  return x;
}

/* What ``many`` elements of a row are multiplied by: ``scale`` or 0. */
static inline void factors(float *out, int64_t many, int64_t row, uint64_t seed, int32_t rate,
                           float scale) {
  uint32_t words[WIDEST / 2];
  int64_t half = (many + 1) / 2;
  uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32), first = (uint32_t)(row * half);
  for (int64_t i = 0; i < half; i++) words[i] = mixed(first + (uint32_t)i, low, high);
  for (int64_t i = 0; i < half; i++) out[i] = (int32_t)(words[i] & 0xffff) < rate ? 0.0f : scale;
  for (int64_t i = half; i < many; i++)
    out[i] = (int32_t)(words[i - half] >> 16) < rate ? 0.0f : scale;
}

/* Dropout of rows; what has none comes as one long array, the last row cut short. */
void dropout(const value *x, value *y, int64_t many, int64_t width, uint64_t seed, int32_t rate,
             float scale, int threads) {
#pragma omp parallel for num_threads(threads) if (many > SMALL)
  for (int64_t first = 0; first < many; first += width) {
    float kept[WIDEST];
    int64_t here = many - first < width ? many - first : width;
    factors(kept, width, first / width, seed, rate, scale);
    for (int64_t i = 0; i < here; i++) y[first + i] = narrow(wide(x[first + i]) * kept[i]);
  }
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016), the half of 1 + tanh
   as 1 / (1 + e^-u) of twice as much. */
#define TWICE 1.59576912f
#define CUBIC 0.044715f
static inline float half(float x) {
  return 1.0f / (1.0f + power_of_2(x * (-LOG2E * TWICE - LOG2E * TWICE * CUBIC * x * x)));
}


/* An activation is v times a share of it: ``kind`` 0 is GELU's normal distribution, 1 its form with
   tanh, 2 SiLU's logistic function. ``slope`` is the derivative of the product. The distribution is
   7.1.26 of Abramowitz and Stegun 1964, to 1e-7 of 1. */
#define GELU 0
#define GELU_TANH 1
#define SILU 2
static inline __attribute__((always_inline)) float share(float v, int kind, float *slope) {
  if (kind == GELU) {
    float t = 1.0f / (1.0f + 0.3275911f * 0.70710678f * fabsf(v)), density = power(-0.5f * v * v);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float beyond = 0.5f * p * t * density, h = v < 0 ? beyond : 1.0f - beyond;
    *slope = h + v * density * 0.39894228f;
    return h;
  }
  float h = kind == SILU ? 1.0f / (1.0f + power(-v)) : half(v);
  *slope = h + v * h * (1.0f - h) * (kind == SILU ? 1.0f : TWICE + TWICE * 3 * CUBIC * v * v);
  return h;
}
/* Of x + bias, in rows. */
void gelu(const value *x, const float *bias, value *y, int64_t rows, int64_t width, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > SMALL)
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < width; i++) {
      float v = wide(x[r * width + i]) + bias[i];
      y[r * width + i] = narrow(v * half(v));
    }
}

/* Gradients of x, and of the bias as ``parts`` sums (parts, width). */
void gelu_backward(const value *x, const float *bias, const value *upstream, value *grad,
                   float *bias_grads, int64_t rows, int64_t width, int64_t parts, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > SMALL)
  for (int64_t part = 0; part < parts; part++) {
    float *bias_grad = bias_grads + part * width;
    memset(bias_grad, 0, width * sizeof(float));
    for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; r++) {
      const value *xr = x + r * width, *u = upstream + r * width;
      value *g = grad + r * width;
      for (int64_t i = 0; i < width; i++) {
        float slope;
        share(wide(xr[i]) + bias[i], GELU_TANH, &slope);
        slope *= wide(u[i]);
        bias_grad[i] += slope;
        g[i] = narrow(slope);
      }
    }
  }
}

static inline __attribute__((always_inline)) void gate(const value *x, value *y, int64_t width,
                                                       int kind) {
  for (int64_t i = 0; i < width; i++) {
    float slope, v = wide(x[i]);
    y[i] = narrow(v * share(v, kind, &slope) * wide(x[width + i]));
  }
}
static inline __attribute__((always_inline)) void gate_backward(const value *x, const value *up,
                                                                value *grad, int64_t width,
                                                                int kind) {
  for (int64_t i = 0; i < width; i++) {
    float slope, v = wide(x[i]), u = wide(up[i]), passed = v * share(v, kind, &slope);
    grad[i] = narrow(u * wide(x[width + i]) * slope);
    grad[width + i] = narrow(u * passed);
  }
}
#define BY_KIND(function, ...) \
  if (kind == GELU) function(__VA_ARGS__, GELU); \
  else if (kind == SILU) function(__VA_ARGS__, SILU); \
  else function(__VA_ARGS__, GELU_TANH)

/* The activation of the first half of each row of x (rows, 2 width), times the second. */
void gated(const value *x, value *y, int64_t rows, int64_t width, int kind, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > SMALL)
  for (int64_t r = 0; r < rows; r++) {
    BY_KIND(gate, x + 2 * r * width, y + r * width, width);
  }
}

void gated_backward(const value *x, const value *upstream, value *grad, int64_t rows,
                    int64_t width, int kind, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > SMALL)
  for (int64_t r = 0; r < rows; r++) {
    BY_KIND(gate_backward, x + 2 * r * width, upstream + r * width, grad + 2 * r * width, width);
  }
}

/* Pairs of numbers of heads (b, l, n, d), turned by angles (b, l, pairs) whose step to the next b may
   be 0; numbers beyond the pairs stay. A pair is i and i + pairs, or neighbours. ``way`` -1 turns
   back. Steps are those of x; y is contiguous. */
void turn(const value *x, const float *cosines, const float *sines, value *y, int64_t b, int64_t l,
          int64_t n, int64_t d, int64_t pairs, int64_t b_step, int64_t l_step, int64_t n_step,
          int64_t angle_step, int neighbours, float way, int threads) {
#pragma omp parallel for num_threads(threads) if (b * l * n * d > SMALL)
  for (int64_t r = 0; r < b * l; r++) {
    const float *c = cosines + r / l * angle_step + r % l * pairs;
    const float *s = sines + r / l * angle_step + r % l * pairs;
    for (int64_t head = 0; head < n; head++) {
      const value *from = x + r / l * b_step + r % l * l_step + head * n_step;
      value *to = y + (r * n + head) * d;
      if (!neighbours)
        for (int64_t i = 0; i < pairs; i++) {
          float one = wide(from[i]), other = wide(from[i + pairs]), sine = way * s[i];
          to[i] = narrow(one * c[i] - other * sine);
          to[i + pairs] = narrow(other * c[i] + one * sine);
        }
      else
        for (int64_t i = 0; i < pairs; i++) {
          float one = wide(from[2 * i]), other = wide(from[2 * i + 1]), sine = way * s[i];
          to[2 * i] = narrow(one * c[i] - other * sine);
          to[2 * i + 1] = narrow(other * c[i] + one * sine);
        }
      memcpy(to + 2 * pairs, from + 2 * pairs, (d - 2 * pairs) * sizeof(value));
    }
  }
}

/* norm(x + dropout(y)) * weight + bias of rows; the sums, and 1 / deviation, stay for backward.
   Without y these are of x, which stays as it is. ``centred`` 0: means are not taken off (RMS norm). */
void norm(const value *x, const value *y, const float *weight, const float *bias, value *sums,
          value *out, float *means, float *rates, int64_t rows, int64_t width, float eps,
          int centred, uint64_t seed, int32_t rate, float scale, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > SMALL)
  for (int64_t r = 0; r < rows; r++) {
    float row[WIDEST], kept[WIDEST];
    const value *xr = x + r * width, *yr = y + r * width;
    float total = 0, squares = 0;
    if (!y)
      for (int64_t i = 0; i < width; i++) row[i] = wide(xr[i]);
    else if (rate) {
      factors(kept, width, r, seed, rate, scale);
      for (int64_t i = 0; i < width; i++) row[i] = wide(xr[i]) + wide(yr[i]) * kept[i];
    } else
      for (int64_t i = 0; i < width; i++) row[i] = wide(xr[i]) + wide(yr[i]);
    for (int64_t i = 0; y && i < width; i++) {
      value v = narrow(row[i]);
      sums[r * width + i] = v;
      row[i] = wide(v);
    }
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < width; i++) total += row[i];
    float mean = centred ? total / width : 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++) squares += (row[i] - mean) * (row[i] - mean);
    float inverse = 1.0f / sqrtf(squares / width + eps);
    means[r] = mean;
    rates[r] = inverse;
    for (int64_t i = 0; i < width; i++)
      out[r * width + i] = narrow((row[i] - mean) * inverse * weight[i] + bias[i]);
  }
}

/* Gradients of x, of y, and of weight and bias, these as ``parts`` sums (parts, width). ``beside``,
   which may be missing, is what else the gradient of the sums is. */
void norm_backward(const value *upstream, const value *beside, const value *sums,
                   const float *means, const float *rates, const float *weight, value *x_grad,
                   value *y_grad, float *weight_grads, float *bias_grads, int64_t rows,
                   int64_t width, int64_t parts, int centred, uint64_t seed, int32_t rate,
                   float scale, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > SMALL)
  for (int64_t part = 0; part < parts; part++) {
    float normed[WIDEST], slope[WIDEST];
    float *weight_grad = weight_grads + part * width, *bias_grad = bias_grads + part * width;
    memset(weight_grad, 0, width * sizeof(float));
    memset(bias_grad, 0, width * sizeof(float));
    for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; r++) {
      const value *u = upstream + r * width, *s = sums + r * width, *also = beside + r * width;
      float mean = means[r], inverse = rates[r], plain = 0, along = 0;
      for (int64_t i = 0; i < width; i++) {
        float up = wide(u[i]);
        normed[i] = (wide(s[i]) - mean) * inverse;
        slope[i] = up * weight[i];
        weight_grad[i] += up * normed[i];
        bias_grad[i] += up;
      }
#pragma omp simd reduction(+ : plain, along)
      for (int64_t i = 0; i < width; i++) {
        plain += slope[i];
        along += slope[i] * normed[i];
      }
      plain = centred ? plain / width : 0;
      along /= width;
      for (int64_t i = 0; i < width; i++)
        slope[i] = (slope[i] - plain - normed[i] * along) * inverse;
      for (int64_t i = 0; beside && i < width; i++) slope[i] += wide(also[i]);
      for (int64_t i = 0; i < width; i++) x_grad[r * width + i] = narrow(slope[i]);
      if (rate) {
        factors(normed, width, r, seed, rate, scale);
        for (int64_t i = 0; i < width; i++) y_grad[r * width + i] = narrow(slope[i] * normed[i]);
      }
    }
  }
}

/* softmax(by * scores + added) of rows (b, n, q), and the same after dropout. ``added`` may be
   missing; its steps from a b, an n, a q to the next may be 0. */
void softmax(const value *scores, const value *added, value *chances, value *dropped, int64_t b,
             int64_t n, int64_t q, int64_t width, int64_t b_step, int64_t n_step, int64_t q_step,
             float by, uint64_t seed, int32_t rate, float scale, int threads) {
  int64_t rows = b * n * q;
#pragma omp parallel for num_threads(threads) if (rows * width > SMALL)
  for (int64_t r = 0; r < rows; r++) {
    float row[WIDEST], kept[WIDEST];
    const value *s = scores + r * width;
    float top = -INFINITY, total = 0;
    for (int64_t i = 0; i < width; i++) row[i] = wide(s[i]) * by;
    if (added) {
      const value *a = added + r / (n * q) * b_step + r / q % n * n_step + r % q * q_step;
      for (int64_t i = 0; i < width; i++) row[i] += wide(a[i]);
    }
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < width; i++) top = row[i] > top ? row[i] : top;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < width; i++) {
      float e = row[i] - top < -87.0f ? 0.0f : power(row[i] - top);
      row[i] = e;
      total += e;
    }
    float inverse = 1.0f / total;
    for (int64_t i = 0; i < width; i++) {
      value p = narrow(row[i] * inverse);
      chances[r * width + i] = p;
      row[i] = wide(p);
    }
    factors(kept, width, r, seed, rate, scale);
    for (int64_t i = 0; i < width; i++) dropped[r * width + i] = narrow(row[i] * kept[i]);
  }
}

/* Turns the gradient of what dropout left into that of by * scores, and tells again what it left. */
void softmax_backward(const value *chances, value *grad, value *dropped, int64_t rows,
                      int64_t width, uint64_t seed, int32_t rate, float scale, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > SMALL)
  for (int64_t r = 0; r < rows; r++) {
    float row[WIDEST], kept[WIDEST], along = 0;
    const value *p = chances + r * width;
    value *g = grad + r * width, *d = dropped + r * width;
    factors(kept, width, r, seed, rate, scale);
    for (int64_t i = 0; i < width; i++) row[i] = wide(g[i]) * kept[i];
    for (int64_t i = 0; i < width; i++) d[i] = narrow(wide(p[i]) * kept[i]);
#pragma omp simd reduction(+ : along)
    for (int64_t i = 0; i < width; i++) along += row[i] * wide(p[i]);
    for (int64_t i = 0; i < width; i++) g[i] = narrow(wide(p[i]) * (row[i] - along));
  }
}

static float block_sum(const float *weights, int64_t begin, int64_t end) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = begin; i < end; i++) sum += weights[i];
  return sum;
}

/* An id in proportion to weights, by the inverse of their running sum: a block, then the id. */
static int64_t drawn(const float *weights, int64_t ids, double chance) {
  double total = 0, until = 0;
  int64_t begin = 0, found = 0;
  for (int64_t i = 0; i < ids; i += BLOCK)
    total += block_sum(weights, i, ids < i + BLOCK ? ids : i + BLOCK);
  double wanted = chance * total;
  for (; begin + BLOCK < ids; begin += BLOCK) {
    float sum = block_sum(weights, begin, begin + BLOCK);
    if (until + sum > wanted) break;
    until += sum;
  }
  for (int64_t i = begin; i < ids && i < begin + BLOCK; i++) {
    if (weights[i] > 0) found = i;
    until += weights[i];
    if (until > wanted) break;
  }
  return found;
}

static inline float highest(const float *z, int64_t begin, int64_t end) {
  float top = -INFINITY;
#pragma omp simd reduction(max : top)
  for (int64_t i = begin; i < end; i++) top = z[i] > top ? z[i] : top;
  return top;
}

/* -log softmax(scores + bias)[target] of rows, whether the target is on top, and an id drawn where
   there are ``chances``. The scores become softmax - one-hot, their own gradient. The top beside one
   of the first ``tokens`` ids is that of these, if there are any. ``room`` holds a row a thread. */
void vocabulary_loss(value *scores, const float *bias, const int64_t *targets,
                     const double *chances, float *losses, uint8_t *hits, int64_t *drawn_ids,
                     float *room, int64_t rows, int64_t ids, int64_t tokens, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * ids > SMALL)
  for (int64_t r = 0; r < rows; r++) {
    value *score = scores + r * ids;
    float *z = room + ids * omp_get_thread_num(), total = 0;
    int64_t target = targets[r], judged = tokens && target < tokens ? tokens : ids;
    for (int64_t i = 0; i < ids; i++) z[i] = wide(score[i]) + bias[i];
    float top = highest(z, 0, judged), rest = highest(z, judged, ids), right = z[target];
    hits[r] = right == top;
    for (int64_t i = 0; hits[r] && i < target; i++) hits[r] = z[i] != top;
    top = rest > top ? rest : top;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < ids; i++) {
      float e = power(z[i] - top);
      z[i] = e;
      total += e;
    }
    losses[r] = logf(total) + top - right;
    if (drawn_ids) drawn_ids[r] = drawn(z, ids, chances[r]);
    float inverse = 1.0f / total;
    z[target] -= total;
    for (int64_t i = 0; i < ids; i++) score[i] = narrow(z[i] * inverse);
  }
}
