package network

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"
)

// Defaults of Options, where Kafka's are not used or do not exist.
const (
	// DefaultMaxRequestBytes is socket.request.max.bytes.
	DefaultMaxRequestBytes = 100 << 20
	// DefaultMaxIdle is connections.max.idle.ms.
	DefaultMaxIdle = 10 * time.Minute
	// DefaultRequestMemoryBytes bounds the memory of all requests in the house.
	// Kafka's queued.max.request.bytes is unbounded by default; ours is not.
	DefaultRequestMemoryBytes = 256 << 20
	// DefaultConnRequestBytes bounds the requests of one connection.
	DefaultConnRequestBytes = 64 << 20
	// DefaultResponseMemoryBytes bounds the encoded responses that clients have not
	// taken yet: above it a connection with such responses starts no new request.
	DefaultResponseMemoryBytes = 256 << 20
	// DefaultConnResponseBytes bounds those of one connection.
	DefaultConnResponseBytes = 16 << 20
	// DefaultMaxInFlight bounds the unanswered requests of one connection.
	DefaultMaxInFlight = 100
	// DefaultHandshake is the time a connection has for its first whole request.
	DefaultHandshake = 10 * time.Second
	// DefaultStall is the longest a frame that has begun may pause.
	DefaultStall = 10 * time.Second
	// DefaultMinBytesPerSecond is the slowest a frame may arrive after Stall.
	DefaultMinBytesPerSecond = 32 << 10
	// DefaultWriteTimeout is the longest a client may take no byte of a response.
	DefaultWriteTimeout = 30 * time.Second
)

// Listener is one address to accept on.
type Listener struct {
	// Name is the listener name of the config, for example PLAINTEXT.
	Name string
	// Addr is host:port; port 0 picks a free one (see Server.Addr).
	Addr string
	// TLS makes it a TLS listener; nil is plaintext.
	TLS *tls.Config
	// MaxConnections is listener.name.X.max.connections; 0 means no own limit.
	MaxConnections int
	// Protected exempts the listener from Limits.MaxConnections: brokers and
	// controllers must reach each other when clients have filled the house.
	Protected bool
}

// Limits are the accept caps; all can change while the server runs.
type Limits struct {
	// MaxConnections is max.connections: when reached, accepting pauses. 0 means
	// no limit.
	MaxConnections int
	// MaxConnectionsPerIP is max.connections.per.ip: a connection above it is
	// closed at once. 0 means no limit.
	MaxConnectionsPerIP int
	// PerIPOverrides is max.connections.per.ip.overrides.
	PerIPOverrides map[netip.Addr]int
	// MaxCreationRate is max.connection.creation.rate, connections a second over
	// all unprotected listeners: accepting pauses above it. 0 means no limit.
	MaxCreationRate int
}

// Options of NewServer. Zero fields take the defaults above.
type Options struct {
	Listeners []Listener
	Limits    Limits

	MaxRequestBytes     int
	RequestMemoryBytes  int64
	ConnRequestBytes    int
	ResponseMemoryBytes int64
	ConnResponseBytes   int
	MaxInFlight         int

	MaxIdle           time.Duration // connections.max.idle.ms
	Handshake         time.Duration
	Stall             time.Duration
	MinBytesPerSecond int
	WriteTimeout      time.Duration

	// SendBufferBytes and ReceiveBufferBytes are socket.{send,receive}.buffer.bytes;
	// 0 or less leaves the kernel's autotuning alone.
	SendBufferBytes, ReceiveBufferBytes int
	// MaxSendfiles bounds the sendfile calls that run at once, since a cold page
	// blocks a thread; 0 means 64.
	MaxSendfiles int
	// PoisonFreed overwrites buffers when they are given back, so that a use
	// after free shows at once. For tests.
	PoisonFreed bool

	Observer Observer     // nil: nothing is counted
	Logger   *slog.Logger // nil: slog.Default()
}
