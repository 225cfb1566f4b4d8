package metahash

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// The constants of XXH3 (xxHash specification, version 0.2.0).
const (
	prime32x1 uint64 = 0x9e3779b1
	prime32x2 uint64 = 0x85ebca77
	prime32x3 uint64 = 0xc2b2ae3d
	prime64x1 uint64 = 0x9e3779b185ebca87
	prime64x2 uint64 = 0xc2b2ae3d27d4eb4f
	prime64x3 uint64 = 0x165667b19e3779f9
	prime64x4 uint64 = 0x85ebca77c2b2ae63
	prime64x5 uint64 = 0x27d4eb2f165667c5
	primeMX1  uint64 = 0x165667919e3779f9
	primeMX2  uint64 = 0x9fb21c651e98df25

	stripeBytes = 64
	secretBytes = 192
	blockBytes  = stripeBytes * (secretBytes - stripeBytes) / 8
)

var secret, _ = hex.DecodeString("" +
	"b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e" +
	"e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d" +
	"8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc" +
	"8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")

func u32(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }
func u64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// xxh3 is XXH3_64bits with seed 0.
func xxh3(b []byte) uint64 {
	switch n := len(b); {
	case n <= 16:
		return hashUpTo16(b)
	case n <= 128:
		return hashUpTo128(b)
	case n <= 240:
		return hashUpTo240(b)
	}
	return hashLong(b)
}

func hashUpTo16(b []byte) uint64 {
	n := uint64(len(b))
	switch {
	case n > 8:
		lo := u64(b) ^ u64(secret[24:]) ^ u64(secret[32:])
		hi := u64(b[n-8:]) ^ u64(secret[40:]) ^ u64(secret[48:])
		return avalanche(n + bits.ReverseBytes64(lo) + hi + fold(lo, hi))
	case n >= 4:
		x := u32(b[n-4:]) + u32(b)<<32
		x ^= u64(secret[8:]) ^ u64(secret[16:])
		x ^= bits.RotateLeft64(x, 49) ^ bits.RotateLeft64(x, 24)
		x *= primeMX2
		x ^= x>>35 + n
		x *= primeMX2
		return x ^ x>>28
	case n > 0:
		x := uint64(b[0])<<16 | uint64(b[n>>1])<<24 | uint64(b[n-1]) | n<<8
		return avalanche64(x ^ (u32(secret) ^ u32(secret[4:])))
	}
	return avalanche64(u64(secret[56:]) ^ u64(secret[64:]))
}

func hashUpTo128(b []byte) uint64 {
	n := len(b)
	acc := uint64(n) * prime64x1
	for i := (n - 1) / 32; i >= 0; i-- {
		acc += mix16(b[16*i:], secret[32*i:]) + mix16(b[n-16*(i+1):], secret[32*i+16:])
	}
	return avalanche(acc)
}

func hashUpTo240(b []byte) uint64 {
	n := len(b)
	acc := uint64(n) * prime64x1
	rounds := n / 16
	for i := range 8 {
		acc += mix16(b[16*i:], secret[16*i:])
	}
	acc = avalanche(acc)
	for i := 8; i < rounds; i++ {
		acc += mix16(b[16*i:], secret[16*(i-8)+3:])
	}
	return avalanche(acc + mix16(b[n-16:], secret[136-17:]))
}

func hashLong(b []byte) uint64 {
	acc := [8]uint64{prime32x3, prime64x1, prime64x2, prime64x3, prime64x4, prime32x2, prime64x5, prime32x1}
	blocks := (len(b) - 1) / blockBytes
	for i := range blocks {
		block := b[i*blockBytes:]
		for j := range blockBytes / stripeBytes {
			accumulate(&acc, block[j*stripeBytes:], secret[8*j:])
		}
		for j := range acc {
			acc[j] = (acc[j] ^ acc[j]>>47 ^ u64(secret[secretBytes-stripeBytes+8*j:])) * prime32x1
		}
	}
	// The last block: its whole stripes, and the last 64 bytes of all.
	last := b[blocks*blockBytes:]
	for i := range (len(last) - 1) / stripeBytes {
		accumulate(&acc, last[i*stripeBytes:], secret[8*i:])
	}
	accumulate(&acc, b[len(b)-stripeBytes:], secret[secretBytes-stripeBytes-7:])
	out := uint64(len(b)) * prime64x1
	for i := range 4 {
		out += fold(acc[2*i]^u64(secret[11+16*i:]), acc[2*i+1]^u64(secret[11+16*i+8:]))
	}
	return avalanche(out)
}

func accumulate(acc *[8]uint64, stripe, key []byte) {
	for i := range acc {
		v := u64(stripe[8*i:])
		k := v ^ u64(key[8*i:])
		acc[i^1] += v
		acc[i] += (k & 0xffffffff) * (k >> 32)
	}
}

func mix16(b, key []byte) uint64 { return fold(u64(b)^u64(key), u64(b[8:])^u64(key[8:])) }

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func avalanche(x uint64) uint64 {
	x ^= x >> 37
	x *= primeMX1
	return x ^ x>>32
}

func avalanche64(x uint64) uint64 {
	x ^= x >> 33
	x *= prime64x2
	x ^= x >> 29
	x *= prime64x3
	return x ^ x>>32
}
