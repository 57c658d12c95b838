// Kernels of the CUDA executor: copy and sample decoded chunks that lie in device memory.
//
// Compiled at run time by NVRTC, without headers. Any C++17 compiler takes the same text when the few
// words of CUDA in it are defined, which is how it is tested without a GPU.
//
// Coordinates are  s = ((a0*(j0+0.5) + a1*(j1+0.5)) + a2*(j2+0.5)) + b  in double precision, in this
// order, and nothing is fused (--fmad=false): nearest picks the same element as on the CPU, bit for bit.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

struct b8 { // bool
    u8 value;
};
struct f16 {
    u16 bits;
};
struct x128 { // 16 bytes that are only moved
    u64 low, high;
};
template <class F> struct Complex {
    F re, im;
};
typedef Complex<f32> c64;
typedef Complex<f64> c128;

// One output of a plan. All records have fields of 8 bytes; `_tables.py` packs the same.
struct Output {
    f64 linear[9];
    f64 offset[3];
    i64 extent[3]; // of the source, along the sampled axes
    i64 chunk[3];
    i64 stride[3]; // elements between neighbours within a chunk
    i64 target[3]; // elements between neighbours in the output
    i64 boundary;  // 0 error, 1 constant, 2 clamp
    i64 narrow;    // whether positions within a tile's chunks fit into 32 bits
    u64 values;    // where the output begins
    u64 fill[2];   // bytes of a value: as a sum for linear, else as the output's type
    u64 constant[2];
};
// A box of samples, and the box of chunks under it.
struct Tile {
    i64 output;
    i64 first[3]; // grid point
    i64 count[3];
    i64 at;     // where it begins in the output, in elements
    i64 extra;  // offset within chunks along the axes that are not sampled
    i64 low[3]; // first chunk
    i64 dims[3];
    i64 slots; // where the box begins in the table of slots
};
// What one copy takes of one chunk.
struct Use {
    i64 output;
    i64 base; // where the chunk begins, in elements; negative if it is absent and reads as fill
    i64 elements;
    i64 picks; // where the numbers of its spans are listed, one for each axis
    i64 rank;
};
// A piece of one axis of a copy.
struct Span {
    i64 count;
    i64 source, source_step; // elements within the chunk
    i64 target, target_step; // elements within the output
    i64 listed;              // where pairs of such offsets are listed instead; negative if they are not
};

template <class A, class B> struct Same {
    static constexpr bool value = false;
};
template <class A> struct Same<A, A> {
    static constexpr bool value = true;
};

// What a type is, and for integers its range: `top` is the first float at or above the largest value.
enum Kind { BOOL, INTEGER, HALF, FLOAT, COMPLEX };
template <class T> struct Type {
    static constexpr Kind kind = COMPLEX;
};
template <> struct Type<b8> {
    static constexpr Kind kind = BOOL;
};
template <> struct Type<f16> {
    static constexpr Kind kind = HALF;
};
template <> struct Type<f32> {
    static constexpr Kind kind = FLOAT;
    static constexpr f64 most = 3.4028234663852886e38;
};
template <> struct Type<f64> {
    static constexpr Kind kind = FLOAT;
    static constexpr f64 most = 1.7976931348623157e308;
};
#define INTEGER_TYPE(T, LOW, HIGH, TOP)                                                                      \
    template <> struct Type<T> {                                                                             \
        static constexpr Kind kind = INTEGER;                                                                \
        static constexpr T low = LOW, high = HIGH;                                                           \
        static constexpr f64 top = TOP;                                                                      \
    };
INTEGER_TYPE(u8, 0, 255, 255.0)
INTEGER_TYPE(u16, 0, 65535, 65535.0)
INTEGER_TYPE(u32, 0, 4294967295u, 4294967295.0)
INTEGER_TYPE(u64, 0, 18446744073709551615ull, 18446744073709551616.0)
INTEGER_TYPE(i8, -128, 127, 127.0)
INTEGER_TYPE(i16, -32768, 32767, 32767.0)
INTEGER_TYPE(i32, -2147483647 - 1, 2147483647, 2147483647.0)
INTEGER_TYPE(i64, -9223372036854775807ll - 1, 9223372036854775807ll, 9223372036854775808.0)

__device__ inline f64 from_half(f16 h)
{
    const u64 sign = (u64)(h.bits & 0x8000) << 48;
    const u64 exponent = h.bits >> 10 & 31, mantissa = h.bits & 1023;
    if (exponent == 31) {
        return __longlong_as_double((i64)(sign | 0x7ffull << 52 | mantissa << 42));
    }
    if (exponent == 0) {
        const f64 value = (f64)mantissa * 5.9604644775390625e-08; // 2**-24
        return sign ? -value : value;
    }
    return __longlong_as_double((i64)(sign | (exponent + 1008) << 52 | mantissa << 42));
}

// Rounded half to even, once: not by way of float.
__device__ inline f16 to_half(f64 value)
{
    const u64 bits = (u64)__double_as_longlong(value);
    const u64 magnitude = bits & 0x7fffffffffffffffull;
    const u32 sign = (u32)(bits >> 48) & 0x8000u;
    const f64 size = __longlong_as_double((i64)magnitude);
    u32 result;
    if (value != value) {
        const u32 payload = (u32)(bits >> 42) & 1023u;
        result = 0x7c00u | (payload ? payload : 1u);
    } else if (size >= 65520.0) {
        result = 0x7c00u;
    } else if (size < 6.103515625e-05) { // 2**-14: steps of 2**-24
        result = (u32)rint(size * 16777216.0);
    } else {
        const i64 exponent = (i64)(magnitude >> 52) - 1023;
        const f64 scale = __longlong_as_double((1033 - exponent) << 52);
        result = (u32)((exponent + 15) << 10) + (u32)rint(size * scale) - 1024u; // 2048 carries into the exponent
    }
    return f16{(u16)(sign | result)};
}

template <class S> __device__ inline f64 real_of(S value)
{
    if constexpr (Type<S>::kind == HALF) {
        return from_half(value);
    } else if constexpr (Type<S>::kind == BOOL) {
        return value.value ? 1.0 : 0.0;
    } else {
        return (f64)value;
    }
}

// From integers and floats to a float as C converts, without a way by double where that would round twice.
template <class F, class S> __device__ inline F cast_float(S value)
{
    if constexpr (Type<S>::kind == INTEGER || Type<S>::kind == FLOAT) {
        return (F)value;
    } else {
        return (F)real_of(value);
    }
}

template <class T, class S> __device__ inline T clipped(S value)
{
    if constexpr (Type<S>::low < 0) {
        if constexpr (Type<T>::low < 0) {
            const i64 v = value, low = Type<T>::low, high = Type<T>::high;
            return (T)(v < low ? low : v > high ? high : v);
        } else {
            const u64 v = value < 0 ? 0 : (u64)value, high = Type<T>::high;
            return (T)(v > high ? high : v);
        }
    } else {
        const u64 v = value, high = (u64)Type<T>::high;
        return (T)(v > high ? high : v);
    }
}

template <class T> __device__ inline T rounded(f64 value)
{
    if (value != value) {
        return 0;
    }
    const f64 whole = rint(value);
    if (whole >= Type<T>::top) {
        return Type<T>::high;
    }
    return whole <= (f64)Type<T>::low ? Type<T>::low : (T)whole;
}

// Element type conversion: rounded half to even, clamped to the range, NaN becomes 0 in an integer.
template <class T, class S> __device__ inline T convert(S value)
{
    constexpr Kind from = Type<S>::kind, to = Type<T>::kind;
    if constexpr (Same<S, T>::value) {
        return value;
    } else if constexpr (to == COMPLEX) {
        if constexpr (from == COMPLEX) {
            return T{(decltype(T::re))value.re, (decltype(T::re))value.im};
        } else {
            return T{cast_float<decltype(T::re)>(value), 0};
        }
    } else if constexpr (to == BOOL) {
        return T{(u8)(real_of(value) != 0.0)};
    } else if constexpr (to == INTEGER) {
        if constexpr (from == BOOL) {
            return (T)(value.value ? 1 : 0);
        } else if constexpr (from == INTEGER) {
            return clipped<T>(value);
        } else {
            return rounded<T>(real_of(value));
        }
    } else if constexpr (to == HALF) {
        const f64 wide = real_of(value); // integers beyond 53 bits are beyond any half anyway
        f16 half = to_half(wide);
        if ((half.bits & 0x7fff) == 0x7c00 && wide - wide == 0.0) {
            half.bits -= 1; // finite values stay finite
        }
        return half;
    } else {
        T narrow = cast_float<T>(value);
        if constexpr (Same<T, f32>::value && Same<S, f64>::value) {
            if (narrow - narrow != 0.0f && value - value == 0.0) {
                narrow = value < 0 ? (T)-Type<T>::most : (T)Type<T>::most;
            }
        }
        return narrow;
    }
}

template <class T> __device__ inline T value_in(const u64 *bytes)
{
    return *(const T *)bytes;
}

// Copies: each block works on a part of one use.
template <class S, class T>
__global__ void gather(const S *pool, const Output *outputs, const Use *uses, const i64 *picks,
                       const Span *spans, const i64 *lists, u32 parts)
{
    const Use &use = uses[blockIdx.x / parts];
    const Output &output = outputs[use.output];
    T *values = (T *)output.values;
    const u64 begin = (u64)(blockIdx.x % parts) * blockDim.x + threadIdx.x;
    for (u64 k = begin; k < (u64)use.elements; k += (u64)parts * blockDim.x) {
        u64 rest = k;
        i64 from = 0, to = 0;
        for (i64 axis = use.rank - 1; axis >= 0; --axis) {
            const Span &span = spans[picks[use.picks + axis]];
            u64 at;
            if (rest < 0x100000000ull && (u64)span.count < 0x100000000ull) { // 64-bit division is slow
                at = (u32)rest % (u32)span.count;
                rest = (u32)rest / (u32)span.count;
            } else {
                at = rest % (u64)span.count;
                rest /= (u64)span.count;
            }
            if (span.listed < 0) {
                from += span.source + (i64)at * span.source_step;
                to += span.target + (i64)at * span.target_step;
            } else {
                from += lists[2 * (span.listed + (i64)at)];
                to += lists[2 * (span.listed + (i64)at) + 1];
            }
        }
        values[to] = use.base < 0 ? value_in<T>(output.fill) : convert<T>(pool[use.base + from]);
    }
}

// Which chunk of a tile's box an index lies in, counted from the box, and where within the chunk.
__device__ inline void locate(i64 index, i64 low, i64 chunk, i64 narrow, i64 &which, i64 &inner)
{
    const i64 from = index - low * chunk;
    if (narrow && (u64)from < 0x100000000ull) { // no index far outside may look like one within
        which = (u32)from / (u32)chunk;
    } else {
        which = from < 0 ? -1 : from / chunk;
    }
    inner = from - which * chunk;
}

__device__ inline i64 slot_of(const Tile &tile, const i64 *slots, i64 z, i64 y, i64 x)
{
    if ((u64)z >= (u64)tile.dims[0] || (u64)y >= (u64)tile.dims[1] || (u64)x >= (u64)tile.dims[2]) {
        return -1; // no sample of a plan gets here; memory is safe from any other
    }
    return slots[tile.slots + (z * tile.dims[1] + y) * tile.dims[2] + x];
}

__device__ inline i64 limited(i64 index, i64 extent)
{
    return index < 0 ? 0 : index >= extent ? extent - 1 : index;
}

// A sample's place: grid point, coordinate of the source along each axis, and element of the output.
struct Sample {
    f64 s[3];
    i64 at;
};

__device__ inline Sample sample_at(const Output &output, const Tile &tile, u32 k)
{
    const u32 n2 = (u32)tile.count[2], n1 = (u32)tile.count[1];
    const u32 row = k / n2, j2 = k % n2, j1 = row % n1, j0 = row / n1;
    const f64 p0 = (f64)(tile.first[0] + j0) + 0.5;
    const f64 p1 = (f64)(tile.first[1] + j1) + 0.5;
    const f64 p2 = (f64)(tile.first[2] + j2) + 0.5;
    Sample sample;
    for (int i = 0; i < 3; ++i) {
        const f64 *a = output.linear + 3 * i;
        sample.s[i] = ((a[0] * p0 + a[1] * p1) + a[2] * p2) + output.offset[i];
    }
    sample.at = tile.at + j0 * output.target[0] + j1 * output.target[1] + j2 * output.target[2];
    return sample;
}

// Elements at floor(s). S is stored, M what values are converted to first, T the output's type.
template <class S, class M, class T>
__global__ void nearest(const S *pool, const Output *outputs, const Tile *tiles, const i64 *slots, u32 parts)
{
    const Tile &tile = tiles[blockIdx.x / parts];
    const Output &output = outputs[tile.output];
    T *values = (T *)output.values;
    const u32 total = (u32)(tile.count[0] * tile.count[1] * tile.count[2]);
    for (u32 k = blockIdx.x % parts * blockDim.x + threadIdx.x; k < total; k += parts * blockDim.x) {
        const Sample sample = sample_at(output, tile, k);
        i64 which[3], from = tile.extra;
        bool inside = true;
        for (int i = 0; i < 3; ++i) {
            i64 index = (i64)floor(sample.s[i]), inner;
            if (output.boundary == 2) {
                index = limited(index, output.extent[i]);
            }
            inside = inside && index >= 0 && index < output.extent[i];
            locate(index, tile.low[i], output.chunk[i], output.narrow, which[i], inner);
            from += inner * output.stride[i];
        }
        if (!inside) {
            values[sample.at] = value_in<T>(output.constant);
            continue;
        }
        const i64 base = slot_of(tile, slots, which[0], which[1], which[2]);
        values[sample.at] = base < 0 ? value_in<T>(output.fill) : convert<T>(convert<M>(pool[base + from]));
    }
}

// The type of weights and sums.
template <class A> struct Sum {
    typedef A Weight;
};
template <class F> struct Sum<Complex<F>> {
    typedef F Weight;
};

template <class A, class W> __device__ inline A mixed(A a, A b, W w)
{
    const W q = (W)1 - w;
    if constexpr (Type<A>::kind == COMPLEX) { // a full product of complex numbers, as on the CPU
        return A{(q * a.re - (W)0 * a.im) + (w * b.re - (W)0 * b.im),
                 (q * a.im + (W)0 * a.re) + (w * b.im + (W)0 * b.re)};
    } else {
        return q * a + w * b;
    }
}

// Weighted neighbours. S is stored, A the type of sums, T the output's type.
template <class S, class A, class T>
__global__ void linear(const S *pool, const Output *outputs, const Tile *tiles, const i64 *slots, u32 parts)
{
    typedef typename Sum<A>::Weight W;
    const Tile &tile = tiles[blockIdx.x / parts];
    const Output &output = outputs[tile.output];
    T *values = (T *)output.values;
    const u32 total = (u32)(tile.count[0] * tile.count[1] * tile.count[2]);
    for (u32 k = blockIdx.x % parts * blockDim.x + threadIdx.x; k < total; k += parts * blockDim.x) {
        const Sample sample = sample_at(output, tile, k);
        W weight[3];
        i64 which[3][2], inner[3][2];
        bool inside[3][2], together = true;
        for (int i = 0; i < 3; ++i) {
            const f64 f = sample.s[i] - 0.5;
            const f64 g = floor(f);
            weight[i] = (W)(f - g);
            // a neighbour without weight is not looked at
            i64 pair[2] = {(i64)g, (i64)g + (f > g ? 1 : 0)};
            if (output.boundary == 2 && (pair[0] < 0 || pair[0] >= output.extent[i] - 1)) {
                weight[i] = 0; // at and beyond an edge, the edge's element alone
                pair[0] = pair[1] = limited(pair[0], output.extent[i]);
            }
            for (int side = 0; side < 2; ++side) {
                inside[i][side] = pair[side] >= 0 && pair[side] < output.extent[i];
                if (output.boundary == 0) { // has nothing outside; memory is safe from a wrong plan all the same
                    pair[side] = limited(pair[side], output.extent[i]);
                    inside[i][side] = true;
                }
            }
            locate(pair[0], tile.low[i], output.chunk[i], output.narrow, which[i][0], inner[i][0]);
            which[i][1] = which[i][0];
            inner[i][1] = inner[i][0] + (pair[1] - pair[0]);
            if (inner[i][1] == output.chunk[i]) {
                which[i][1] += 1;
                inner[i][1] = 0;
            }
            together = together && which[i][0] == which[i][1];
            inner[i][0] *= output.stride[i];
            inner[i][1] *= output.stride[i];
        }
        i64 base = -1;
        if (together) {
            base = slot_of(tile, slots, which[0][0], which[1][0], which[2][0]);
        }
        A v[8];
        for (int c = 0; c < 8; ++c) {
            const int a = c >> 2 & 1, b = c >> 1 & 1, d = c & 1;
            if (!(inside[0][a] && inside[1][b] && inside[2][d])) {
                v[c] = value_in<A>(output.constant);
                continue;
            }
            if (!together) {
                base = slot_of(tile, slots, which[0][a], which[1][b], which[2][d]);
            }
            if (base < 0) {
                v[c] = value_in<A>(output.fill);
            } else {
                v[c] = convert<A>(pool[base + tile.extra + inner[0][a] + inner[1][b] + inner[2][d]]);
            }
        }
        A low = v[0], high = v[0];
        if constexpr (Type<A>::kind == FLOAT) {
            for (int c = 1; c < 8; ++c) {
                low = v[c] < low ? v[c] : low;
                high = v[c] > high ? v[c] : high;
            }
        }
        if (weight[2] > 0) { // 0 * inf would be NaN
            v[0] = mixed(v[0], v[1], weight[2]);
            v[2] = mixed(v[2], v[3], weight[2]);
            v[4] = mixed(v[4], v[5], weight[2]);
            v[6] = mixed(v[6], v[7], weight[2]);
        }
        if (weight[1] > 0) {
            v[0] = mixed(v[0], v[2], weight[1]);
            v[4] = mixed(v[4], v[6], weight[1]);
        }
        if (weight[0] > 0) {
            v[0] = mixed(v[0], v[4], weight[0]);
        }
        A sum = v[0];
        if constexpr (Type<A>::kind == FLOAT) { // rounding must not leave the range of the neighbours
            sum = sum < low ? low : sum > high ? high : sum;
        }
        values[sample.at] = convert<T>(sum);
    }
}
