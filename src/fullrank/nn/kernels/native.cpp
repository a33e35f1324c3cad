// The loops of native.py. Pairs are sorted as ptr says, arrays are contiguous. Threads
// share the pairs or, where several pairs add to one row, the rows or the columns: no
// sum depends on the number of threads.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <omp.h>
#include <vector>

using I = int64_t;

static inline double tanh_(double x) { return std::tanh(x); }

// A rational approximation, to 4 units in the last place. NaN stays NaN.
static inline float tanh_(float x) {
  const float bound = 7.90531110763549805f;
  x = x > bound ? bound : x < -bound ? -bound : x;
  const float y = x * x;
  float p = -2.76076847742355e-16f;
  p = p * y + 2.00018790482477e-13f;
  p = p * y - 8.60467152213735e-11f;
  p = p * y + 5.12229709037114e-08f;
  p = p * y + 1.48572235717979e-05f;
  p = p * y + 6.37261928875436e-04f;
  p = p * y + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * y + 1.18534705686654e-04f;
  q = q * y + 2.26843463243900e-03f;
  q = q * y + 4.89352518554385e-03f;
  return x * p / q;
}

// Calls body(first, last) with a share of the columns for each thread.
template <class Body> void by_columns(I width, I threads, Body body) {
  const I step = (width / 16 + threads) / threads * 16;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (I first = 0; first < width; first += step)
    body(first, first + step < width ? first + step : width);
}

// Calls body(e) for the pairs in order; those of a destination are one thread's.
template <class Body> void by_destination(const I *dst, I n, I threads, Body body) {
#pragma omp parallel num_threads(threads)
  {
    const I mine = omp_get_thread_num(), all = omp_get_num_threads();
    for (I e = 0; e < n; e++)
      if (dst[e] % all == mine) body(e);
  }
}

// Calls body(e, partial), which adds a row of width d, and adds up all these rows.
template <class T, class Body>
void by_pairs(T *sum, I n, I d, I threads, Body body) {
  const I size = 256, chunks = (n + size - 1) / size;
  std::vector<T> partial(chunks * d);
#pragma omp parallel for num_threads(threads)
  for (I chunk = 0; chunk < chunks; chunk++)
    for (I e = chunk * size; e < n && e < (chunk + 1) * size; e++)
      body(e, partial.data() + chunk * d);
  for (I chunk = 0; chunk < chunks; chunk++)
    for (I c = 0; c < d; c++) sum[c] += partial[chunk * d + c];
}

// out[dst] += tanh(a_dst + a_src) * x
template <class T>
void combine(T *out, const T *a_dst, const T *a_src, const T *x, const I *src,
             const I *dst, I n, I d, I threads) {
  by_columns(d, threads, [=](I first, I last) {
    for (I e = 0; e < n; e++) {
      const T *p = a_dst + dst[e] * d, *q = a_src + src[e] * d, *r = x + src[e] * d;
      T *row = out + dst[e] * d;
#pragma omp simd
      for (I c = first; c < last; c++) row[c] += tanh_(p[c] + q[c]) * r[c];
    }
  });
}

template <class T>
void combine_backward(const T *grad, const T *a_dst, const T *a_src, const T *x,
                      const I *src, const I *dst, T *grad_a_dst, T *grad_a_src,
                      T *grad_x, I n, I d, I threads) {
  by_columns(d, threads, [=](I first, I last) {
    for (I e = 0; e < n; e++) {
      const I u = src[e] * d, v = dst[e] * d;
      const T *g = grad + v, *p = a_dst + v, *q = a_src + u, *r = x + u;
      T *of_p = grad_a_dst + v, *of_q = grad_a_src + u, *of_r = grad_x + u;
#pragma omp simd
      for (I c = first; c < last; c++) {
        const T t = tanh_(p[c] + q[c]), by_a = g[c] * r[c] * (1 - t * t);
        of_p[c] += by_a, of_q[c] += by_a, of_r[c] += g[c] * t;
      }
    }
  });
}

// z = tanh(a_dst + a_src + a_edge) * (x + x_edge) for each pair; both edge terms may be
// missing
template <class T>
void combine_rows(T *z, const T *a_edge, const T *x_edge, const T *a_dst,
                  const T *a_src, const T *x, const I *src, const I *dst, I n, I d,
                  I threads) {
#pragma omp parallel for num_threads(threads)
  for (I e = 0; e < n; e++) {
    const T *p = a_dst + dst[e] * d, *q = a_src + src[e] * d, *r = x + src[e] * d;
    const T *p_edge = a_edge + e * d, *r_edge = x_edge + e * d;
    T *row = z + e * d;
    if (a_edge)
#pragma omp simd
      for (I c = 0; c < d; c++)
        row[c] = tanh_(p[c] + q[c] + p_edge[c]) * (r[c] + r_edge[c]);
    else
#pragma omp simd
      for (I c = 0; c < d; c++) row[c] = tanh_(p[c] + q[c]) * r[c];
  }
}

// Given the gradients of z, of nodes whose pairs begin where ptr says. Those of the
// inputs of tanh replace them; those of x + x_edge replace x_edge.
template <class T>
void combine_rows_backward(T *grad, const T *a_edge, T *x_edge, const T *a_dst,
                           const T *a_src, const T *x, const I *src, const I *dst,
                           const I *ptr, T *grad_a_dst, T *grad_a_src, T *grad_x,
                           I nodes, I n, I d, I threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 8)
  for (I node = 0; node < nodes; node++)
    for (I e = ptr[node]; e < ptr[node + 1]; e++) {
      const T *p = a_dst + dst[e] * d, *q = a_src + src[e] * d, *r = x + src[e] * d;
      const T *p_edge = a_edge + e * d;
      T *g = grad + e * d, *r_edge = x_edge + e * d;
      T *of_q = grad_a_src + src[e] * d, *of_r = grad_x + src[e] * d;
      if (a_edge)
#pragma omp simd
        for (I c = 0; c < d; c++) {
          const T t = tanh_(p[c] + q[c] + p_edge[c]), by_x = g[c] * t;
          g[c] *= (r[c] + r_edge[c]) * (1 - t * t);
          of_q[c] += g[c], of_r[c] += by_x, r_edge[c] = by_x;
        }
      else
#pragma omp simd
        for (I c = 0; c < d; c++) {
          const T t = tanh_(p[c] + q[c]), by_x = g[c] * t;
          g[c] *= r[c] * (1 - t * t);
          of_q[c] += g[c], of_r[c] += by_x;
        }
    }
  by_destination(dst, n, threads, [=](I e) {
    T *of_p = grad_a_dst + dst[e] * d;
#pragma omp simd
    for (I c = 0; c < d; c++) of_p[c] += grad[e * d + c];
  });
}

// out[v, k] = sum of m_k x[src] over the pairs of v
template <class T>
void outer_sum(T *out, const T *x, const T *m, const I *src, const I *ptr, I nodes, I s,
               I d, I threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 8)
  for (I v = 0; v < nodes; v++) {
    T *rows = out + v * s * d;
    std::memset(rows, 0, sizeof(T) * s * d);
    for (I e = ptr[v]; e < ptr[v + 1]; e++)
      for (I k = 0; k < s; k++) {
        const T w = m[e * s + k], *row = x + src[e] * d;
#pragma omp simd
        for (I c = 0; c < d; c++) rows[k * d + c] += w * row[c];
      }
  }
}

template <class T>
void outer_sum_backward(const T *grad, const T *x, const T *m, const I *src,
                        const I *dst, T *grad_x, T *grad_m, I n, I s, I d,
                        I threads) {
#pragma omp parallel for num_threads(threads)
  for (I e = 0; e < n; e++)
    for (I k = 0; k < s; k++) {
      const T *g = grad + (dst[e] * s + k) * d, *row = x + src[e] * d;
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (I c = 0; c < d; c++) sum += g[c] * row[c];
      grad_m[e * s + k] = sum;
    }
  by_columns(d, threads, [=](I first, I last) {
    for (I e = 0; e < n; e++)
      for (I k = 0; k < s; k++) {
        const T w = m[e * s + k], *g = grad + (dst[e] * s + k) * d;
        T *row = grad_x + src[e] * d;
#pragma omp simd
        for (I c = first; c < last; c++) row[c] += w * g[c];
      }
  });
}

// y = ReLU(y + bias + sum over k of m_k values[src, k]), with y = 0 if empty
template <class T>
void expand(T *y, const T *values, const T *m, const T *bias, const I *src, I empty,
            I n, I d, I s, I threads) {
#pragma omp parallel for num_threads(threads)
  for (I e = 0; e < n; e++) {
    T *row = y + e * d;
    if (empty) std::memset(row, 0, sizeof(T) * d);
    const T *w = m + e * s, *v = values + src[e] * s * d;
    I k = 0;
    for (; k + 4 <= s; k += 4, v += 4 * d)
#pragma omp simd
      for (I c = 0; c < d; c++)
        row[c] += w[k] * v[c] + w[k + 1] * v[d + c] + w[k + 2] * v[2 * d + c] +
                  w[k + 3] * v[3 * d + c];
    for (; k < s; k++, v += d)
#pragma omp simd
      for (I c = 0; c < d; c++) row[c] += w[k] * v[c];
#pragma omp simd
    for (I c = 0; c < d; c++) {
      const T sum = row[c] + bias[c];
      row[c] = sum < 0 ? 0 : sum; // NaN stays NaN
    }
  }
}

// Of nodes whose pairs begin where ptr says: the sum of m_k grad for each k, and for
// each pair the products of grad with the rows of its node.
template <class T>
void expand_backward(T *of_nodes, const T *grad, const T *values, const T *m,
                     const I *src, const I *ptr, T *grad_m, I nodes, I s, I d,
                     I threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 8)
  for (I v = 0; v < nodes; v++) {
    T *sums = of_nodes + v * s * d;
    std::memset(sums, 0, sizeof(T) * s * d);
    for (I e = ptr[v]; e < ptr[v + 1]; e++) {
      const T *g = grad + e * d, *w = m + e * s, *row = values + src[e] * s * d;
      T *sum = sums, *products = grad_m + e * s;
      I k = 0;
      for (; k + 4 <= s; k += 4, sum += 4 * d, row += 4 * d) {
        T p0 = 0, p1 = 0, p2 = 0, p3 = 0;
#pragma omp simd reduction(+ : p0, p1, p2, p3)
        for (I c = 0; c < d; c++) {
          sum[c] += w[k] * g[c], p0 += g[c] * row[c];
          sum[d + c] += w[k + 1] * g[c], p1 += g[c] * row[d + c];
          sum[2 * d + c] += w[k + 2] * g[c], p2 += g[c] * row[2 * d + c];
          sum[3 * d + c] += w[k + 3] * g[c], p3 += g[c] * row[3 * d + c];
        }
        products[k] = p0, products[k + 1] = p1;
        products[k + 2] = p2, products[k + 3] = p3;
      }
      for (; k < s; k++, sum += d, row += d) {
        T p = 0;
#pragma omp simd reduction(+ : p)
        for (I c = 0; c < d; c++) sum[c] += w[k] * g[c], p += g[c] * row[c];
        products[k] = p;
      }
    }
  }
}

// out[dst] += ReLU(z + bias); active says where it is positive
template <class T>
void add_messages(T *out, const T *z, const T *bias, const I *dst, int8_t *active, I n,
                  I d, I threads) {
  by_destination(dst, n, threads, [=](I e) {
    const T *row = z + e * d;
    T *sum = out + dst[e] * d;
    int8_t *flags = active + e * d;
#pragma omp simd
    for (I c = 0; c < d; c++) {
      const T message = row[c] + bias[c];
      flags[c] = !(message <= 0);
      sum[c] += message < 0 ? 0 : message; // NaN stays NaN
    }
  });
}

// out = grad[dst] where active, else 0; sum += the sum of its rows
template <class T>
void take_gradients(T *out, const T *grad, const I *dst, const int8_t *active, T *sum,
                    I n, I d, I threads) {
  by_pairs(sum, n, d, threads, [=](I e, T *partial) {
    const T *row = grad + dst[e] * d;
    const int8_t *flags = active + e * d;
    T *to = out + e * d;
#pragma omp simd
    for (I c = 0; c < d; c++) {
      to[c] = flags[c] ? row[c] : 0;
      partial[c] += to[c];
    }
  });
}

// grad = 0 where the output y of a ReLU is not positive; sum += the sum of its rows
template <class T> void relu_gate(T *grad, const T *y, T *sum, I n, I d, I threads) {
  by_pairs(sum, n, d, threads, [=](I e, T *partial) {
    const T *row = y + e * d;
    T *to = grad + e * d;
#pragma omp simd
    for (I c = 0; c < d; c++) {
      to[c] = row[c] <= 0 ? 0 : to[c]; // as torch, also for NaN
      partial[c] += to[c];
    }
  });
}

#define EXPORT(NAME)                                                                   \
  void *NAME##_float32 = (void *)NAME<float>;                                          \
  void *NAME##_float64 = (void *)NAME<double>;
extern "C" {
EXPORT(combine)
EXPORT(combine_backward)
EXPORT(combine_rows)
EXPORT(combine_rows_backward)
EXPORT(outer_sum)
EXPORT(outer_sum_backward)
EXPORT(expand)
EXPORT(expand_backward)
EXPORT(add_messages)
EXPORT(take_gradients)
EXPORT(relu_gate)
}
