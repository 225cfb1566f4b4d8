package quorum

import (
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
)

func errorf(format string, args ...any) error { return fmt.Errorf("quorum: "+format, args...) }

// raftLogger sends raft's messages to slog: its Info is our Debug.
type raftLogger struct{ log *slog.Logger }

var _ raft.Logger = raftLogger{}

func (l raftLogger) Debug(v ...any)            { l.log.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(f string, v ...any) { l.log.Debug(fmt.Sprintf(f, v...)) }
func (l raftLogger) Info(v ...any)             { l.log.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(f string, v ...any)  { l.log.Debug(fmt.Sprintf(f, v...)) }
func (l raftLogger) Warning(v ...any)          { l.log.Warn(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(f string, v ...any) {
	l.log.Warn(fmt.Sprintf(f, v...))
}
func (l raftLogger) Error(v ...any)            { l.log.Error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(f string, v ...any) { l.log.Error(fmt.Sprintf(f, v...)) }

// Fatal and Panic mean a broken invariant or unreadable storage. Node.protect
// turns the panic into an error that stops the node.
func (l raftLogger) Fatal(v ...any)            { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
func (l raftLogger) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
