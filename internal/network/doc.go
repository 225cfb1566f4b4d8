// Package network accepts connections, cuts their bytes into requests, and puts
// responses back on the wire in the order of the requests.
//
// Purpose: everything between a socket and a Handler (SocketServer, Processor
// and RequestChannel in Apache Kafka), within bounds that no client can pass.
//
// Invariants:
//   - Memory is taken from the budgets before bytes are read or decoded; a buffer
//     grows with the bytes received, never to the size a frame claims. Time spent
//     waiting for memory of ours does not count against a client's deadlines.
//   - Requests of one connection reach the Handler one at a time, in order, on its
//     reader goroutine; their waits overlap; responses leave in request order.
//   - Whoever answers never blocks on the socket: the reader goroutine writes what
//     was answered inside Handle, a goroutine made for the purpose the rest.
//   - A request's Body and its budget are given back after its response is on the
//     wire (or the connection is gone), Handle has returned and the request has
//     been ended, never earlier.
//   - Every connection ends for one stated Reason, counted once. When the server
//     goes away before a connection's first answer, it is reset (young.go).
//   - Nothing a client does or omits holds a goroutine, buffer or descriptor for
//     ever: accept caps, handshake, frame, idle and write deadlines, a bound on
//     unread responses.
//   - A panic in a Handler or encoder ends its connection only.
//   - An idle connection costs its descriptor, one parked goroutine and the Conn:
//     no buffer, no timer of its own besides the read deadline.
//
// Locks: Server.mu (set of connections), quota.mu (accept caps), budget.mu
// (global memory), Conn.mu (response queue). None is held while another is
// taken, while a Handler runs, or across I/O that waits.
//
// Siblings: telemetry (the RequestSample handed to Observer). Called by: server;
// handlers see Request and Conn.
package network
