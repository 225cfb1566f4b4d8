package faults

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestHostileValues sends requests that decode and mean nonsense: every field of
// every API and version holds the ends of its type, huge counts, negative ids and
// names that exist. No panic, memory bounded, a healthy client unaffected, and the
// server starts again on what it was told.
func TestHostileValues(t *testing.T) {
	total := 5_000
	if testing.Short() {
		total = 1_000
	}
	seed := testkit.Seed(t)
	s := testkit.StartServer(t, "")
	const topic = "healthy"
	newTopic(t, s.Bootstrap(), topic, 1)
	stop, done := make(chan struct{}), make(chan error, 1)
	go healthyClient(testkit.Dial(t, s.Bootstrap()), topic, stop, done)
	before := rss(t, s.Pid())
	var wg sync.WaitGroup
	for w := range uint64(4) {
		wg.Go(func() { nonsense(s.Bootstrap(), rand.New(rand.NewPCG(seed, w)), total/4) })
	}
	wg.Wait()
	rise := rss(t, s.Pid()) - before
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("the healthy client was disturbed: %v", err)
	}
	t.Logf("%d requests, memory rose by %d MiB", total, rise>>20)
	if rise > 256<<20 {
		t.Errorf("memory rose by %d MiB", rise>>20)
	}
	s.Stop()
	s.Start()
	if log := s.Log(); strings.Contains(log, "panic") {
		t.Errorf("a handler panicked:\n%.2000s", log[strings.Index(log, "panic"):])
	}
	cl := producer(t, s.Bootstrap(), topic)
	if err := send(cl, 1, 10); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	s.Stop()
}

func nonsense(addr string, rng *rand.Rand, n int) {
	batch := seedBatch()
	frames := &testkit.RawConn{ClientID: "nonsense"}
	served := slices.DeleteFunc(apis.Advertised(apis.Broker), func(a apis.API) bool {
		return a.Key == int16(kmsg.UnregisterBroker) // it may take this broker out, as asked
	})
	buf := make([]byte, 64<<10)
	for n > 0 {
		c, err := net.DialTimeout("tcp", addr, 10*time.Second)
		if err != nil {
			return
		}
		for range min(n, 50) {
			n--
			a := served[rng.IntN(len(served))]
			req := kmsg.RequestForKey(a.Key)
			req.SetVersion(a.Min + int16(rng.IntN(int(a.Max-a.Min)+1)))
			v := reflect.ValueOf(req).Elem()
			scramble(v, rng, batch, 0)
			req.SetVersion(a.Min + int16(rng.IntN(int(a.Max-a.Min)+1)))
			_ = c.SetDeadline(time.Now().Add(time.Second))
			if _, err := c.Write(frames.Frame(req, int32(n))); err != nil {
				break
			}
			if rng.IntN(3) == 0 {
				_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
				if _, err := c.Read(buf); err != nil && !os.IsTimeout(err) {
					break
				}
			}
		}
		c.Close()
	}
}

func seedBatch() []byte {
	bld := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	bld.Append(1, []byte("k"), []byte("v"))
	b, _ := bld.Build()
	return b
}

var nastyNames = []string{"", ".", "..", "nonsense-a", "nonsense-b", "a/b", "../../x", "\x00", "é", strings.Repeat("n", 249), strings.Repeat("n", 250), strings.Repeat("x", 700),
	"__consumer_offsets", "__cluster_metadata", "1", "-1", "range", "consumer", "uniform", "(a+)+$", "retention.ms", "segment.bytes", "9223372036854775807", "99999999999999999999", "member"}

// scramble fills every exported field with what nobody means.
func scramble(v reflect.Value, rng *rand.Rand, batch []byte, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Name != "Version" && v.Type().Field(i).Name != "UnknownTags" {
				scramble(f, rng, batch, depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([][]byte{nil, {}, {0}, batch, append(append([]byte{}, batch...), batch[:20]...), make([]byte, 5000)}[rng.IntN(6)])
			return
		}
		n := []int{0, 1, 1, 2, 3, 100}[rng.IntN(6)]
		if depth > 2 {
			n = min(n, 3)
		}
		s := reflect.MakeSlice(v.Type(), n, n)
		for i := range n {
			scramble(s.Index(i), rng, batch, depth+1)
		}
		v.Set(s)
	case reflect.Pointer:
		if rng.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			scramble(v.Elem(), rng, batch, depth)
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(rng.IntN(2) * rng.IntN(256)))
		}
	case reflect.String:
		v.SetString(nastyNames[rng.IntN(len(nastyNames))])
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		ends := []int64{0, 1, -1, 2, 5, -2, -3, 100, math.MaxInt64 >> (64 - bits), math.MinInt64 >> (64 - bits), int64(rng.Uint64()) >> (64 - bits)}
		v.SetInt(ends[rng.IntN(len(ends))])
	case reflect.Float64:
		v.SetFloat([]float64{0, math.NaN(), math.Inf(1), -1}[rng.IntN(4)])
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(rng.IntN(256)))
	default:
		panic(fmt.Sprintf("a field of kind %v", v.Kind()))
	}
}
