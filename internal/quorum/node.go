package quorum

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

// Ticks per election timeout, and ticks per heartbeat.
const (
	electionTicks  = 10
	heartbeatTicks = 1
	// inboxMessages bounds raft messages that wait for the loop.
	inboxMessages = 1024
)

// Node is this process's member of the quorum.
type Node struct {
	opts Options
	log  *slog.Logger
	fs   vfs.FS
	dir  string // __cluster_metadata-0
	id   uint64 // raft id

	meta      *metaLog
	snaps     *snapshots
	listeners []Listener

	// mu guards raft and what is derived from it. It is not held across
	// writes or callbacks; raft may read old entries from disk under it.
	mu     sync.Mutex
	raft   *raft.RawNode
	voters voterSet
	// granted are the voters that voted for this node in the current term.
	granted map[uint64]bool
	// leading is set while Propose is allowed: this node leads epoch and its
	// LeaderChange batch was given to the listeners.
	leading    bool
	epoch      int32
	leader     uint64 // raft id, 0 none
	nextOffset int64  // of the next proposal; valid while leading
	failed     error
	closed     bool          // the files are closed
	changed    chan struct{} // closed and replaced when readers should look again

	hw         atomic.Int64 // high watermark
	durableEnd atomic.Int64 // end of what was synced
	// Of the loop alone.
	applied     uint64 // raft index given to the listeners
	savedLeader int32  // in quorum-state

	inbox   chan inMessage
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}
	started atomic.Bool
	closing sync.Once
	fetches sync.WaitGroup // snapshot downloads
	lastFetch
}

// lastFetch remembers when voters were last heard of, for DescribeQuorum.
type lastFetch struct {
	heardMs map[uint64]int64 // guarded by Node.mu
}

type inMessage struct {
	m *raftpb.Message
	// haveSnapshot: the file that a MsgSnap names is here.
	haveSnapshot bool
}

// Open reads the folder, cuts a torn tail and is ready for Start.
func Open(o Options) (*Node, error) {
	if err := o.fillDefaults(); err != nil {
		return nil, err
	}
	n := &Node{
		opts: o, log: o.Logger, fs: o.FS, dir: filepath.Join(o.Dir, logDirName),
		granted: map[uint64]bool{}, changed: make(chan struct{}),
		inbox: make(chan inMessage, inboxMessages), wake: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
		lastFetch: lastFetch{heardMs: map[uint64]int64{}},
	}
	store, err := n.recover()
	if err != nil {
		return nil, err
	}
	if err := n.newRaft(); err != nil {
		return nil, errors.Join(err, store.Close(true))
	}
	return n, nil
}

func (n *Node) newRaft() (err error) {
	defer func() {
		if p := recover(); p != nil { // raft panics on states that cannot be
			err = errorf("raft: %v", p)
		}
	}()
	first, _ := n.meta.FirstIndex()
	n.applied = first - 1
	n.raft, err = raft.NewRawNode(&raft.Config{
		ID: n.id, ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		Storage: n.meta, Applied: n.applied,
		MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: 4 << 20,
		MaxUncommittedEntriesSize: maxUncommittedBytes,
		MaxInflightMsgs:           256, MaxInflightBytes: 64 << 20,
		CheckQuorum: true, PreVote: true, DisableProposalForwarding: true,
		StepDownOnRemoval: true,
		Logger:            raftLogger{n.log},
	})
	if err != nil {
		return errorf("raft: %w", err)
	}
	return nil
}

// Start begins to elect, commit and call the listeners, in the order given.
// A quorum of one elects itself at once. Call it once.
func (n *Node) Start(listeners ...Listener) {
	if n.started.Swap(true) {
		return
	}
	n.listeners = listeners
	go n.run()
}

// Close stops the node after what is being written. Nothing needs it for
// safety: a killed node starts as well.
func (n *Node) Close() error {
	n.closing.Do(func() { close(n.stop) })
	if n.started.Load() {
		<-n.done
	}
	n.fetches.Wait()
	n.snaps.writeMu.Lock() // a snapshot that is being taken
	defer n.snaps.writeMu.Unlock()
	n.mu.Lock()
	abandon := n.failed != nil && !errors.Is(n.failed, ErrClosed)
	if n.failed == nil {
		n.failed = ErrClosed
	}
	closed := n.closed
	n.closed = true
	n.mu.Unlock()
	if closed {
		return nil
	}
	return n.meta.store.Close(abandon)
}

// run is the node's goroutine.
func (n *Node) run() {
	defer close(n.done)
	err := n.protect(func() error { return n.loop() })
	if err != nil && !errors.Is(err, ErrClosed) {
		n.log.Error("metadata log failed, the node stops", "err", err)
	} else {
		err = ErrClosed
	}
	n.mu.Lock()
	n.failed = err
	wasEpoch := n.epoch
	n.leading, n.leader = false, 0
	n.broadcastLocked()
	n.mu.Unlock()
	for _, l := range n.listeners {
		l.OnLeadership(Leadership{Epoch: wasEpoch, LeaderID: -1})
	}
	if !errors.Is(err, ErrClosed) {
		n.opts.OnFatal(err)
	}
}

// protect turns a panic of raft (unreadable storage, broken invariant) into an
// error that stops the node.
func (n *Node) protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errorf("raft: %v", p)
		}
	}()
	return f()
}

func (n *Node) loop() error {
	if err := n.loadSnapshot(); err != nil {
		return err
	}
	tick, stopTick := n.ticker()
	defer stopTick()
	if n.isOnlyVoter() {
		var err error
		n.withRaft(func(r *raft.RawNode) { err = r.Campaign() })
		if err != nil {
			return errorf("campaign: %w", err)
		}
	}
	for {
		if err := n.processReady(); err != nil {
			return err
		}
		select {
		case <-n.stop:
			return ErrClosed
		case <-n.wake:
		case <-tick:
			n.withRaft(func(r *raft.RawNode) { r.Tick() })
		case in := <-n.inbox:
			n.receive(in)
		}
	}
}

// ticker drives elections and heartbeats. A quorum of one needs neither: it
// elects itself at start and nobody can depose it.
func (n *Node) ticker() (<-chan time.Time, func()) {
	switch {
	case n.opts.Tick != nil:
		return n.opts.Tick, func() {}
	case n.isOnlyVoter():
		return nil, func() {}
	}
	t := time.NewTicker(time.Duration(n.opts.ElectionTimeoutMs) * time.Millisecond / electionTicks)
	return t.C, t.Stop
}

func (n *Node) isOnlyVoter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.voters.voters) == 1 && n.voters.voters[0].raftID() == n.id
}

func (n *Node) wakeLoop() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// broadcastLocked wakes everybody in waitChange.
func (n *Node) broadcastLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}
