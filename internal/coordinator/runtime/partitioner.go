package runtime

import "unicode/utf16"

// PartitionFor returns the partition of an internal topic with n partitions
// that holds key: Java's String.hashCode without its sign, modulo n.
func PartitionFor(key string, n int) int32 {
	if n <= 0 {
		return 0
	}
	return (javaHash(key) & 0x7fffffff) % int32(n)
}

// javaHash is String.hashCode: over UTF-16 units, in 32-bit arithmetic.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r > 0xffff {
			hi, lo := utf16.EncodeRune(r)
			h = 31*(31*h+hi) + lo
			continue
		}
		h = 31*h + r
	}
	return h
}
