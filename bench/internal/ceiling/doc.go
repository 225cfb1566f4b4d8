// Package ceiling is what this box allows: a server that does of a broker's
// work only what cannot be left out. Produce reads the frame, checks the CRC,
// does one positioned write and answers; with Sync it adds one fdatasync. The
// raw port answers with sendfile(2) and nothing else. It has no logs, no
// recovery, no metadata: nothing here is a broker, it is a measuring stick.
package ceiling
