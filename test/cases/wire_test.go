package cases

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

func init() {
	register("C001", caseC001)
	register("C003", caseC003)
	register("C004", caseC004)
	register("C006", caseC006)
	register("C008", caseC008)
	register("C010", caseC010)
}

func apiVersions(version int16, name, softwareVersion string) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, name, softwareVersion
	return req
}

// C001: an ApiVersions newer than the broker knows is answered in v0 (KIP-511).
func caseC001(t *testing.T, b broker) {
	c := testkit.Dial(t, b.Bootstrap())
	frame := c.Frame(apiVersions(3, "kgo", "1.0"), 7)
	binary.BigEndian.PutUint16(frame[6:], 99)
	c.Write(frame)
	v0 := kmsg.NewPtrApiVersionsResponse()
	testkit.Read(c, 7, v0)
	wantCode(t, "answer to v99", v0.ErrorCode, 35)
	wantEqual(t, "APIs listed", len(v0.ApiKeys), 1)
	k := v0.ApiKeys[0]
	if k.ApiKey != 18 || k.MinVersion != 0 || k.MaxVersion < 4 {
		t.Fatalf("range for ApiVersions: %+v", k)
	}
	full := testkit.Do(c, apiVersions(3, "kgo", "1.0"), kmsg.NewPtrApiVersionsResponse())
	wantCode(t, "answer to v3 on the same socket", full.ErrorCode, 0)
	if len(full.ApiKeys) < 20 {
		t.Fatalf("full list has %d APIs", len(full.ApiKeys))
	}
	for _, of := range full.ApiKeys {
		if of.ApiKey == 18 {
			wantEqual(t, "range for ApiVersions in both answers", [2]int16{k.MinVersion, k.MaxVersion}, [2]int16{of.MinVersion, of.MaxVersion})
		}
	}
}

// C003: the client software name must look like one.
func caseC003(t *testing.T, b broker) {
	for name, want := range map[string]int16{
		"": 42, " kgo": 42, "kgo/1.0": 42, "my client": 42, "kgo": 0, "librdkafka-2.15.0": 0, "a": 0,
	} {
		c := testkit.Dial(t, b.Bootstrap())
		resp := testkit.Do(c, apiVersions(3, name, "1.0"), kmsg.NewPtrApiVersionsResponse())
		wantCode(t, fmt.Sprintf("software name %q", name), resp.ErrorCode, want)
	}
	c := testkit.Dial(t, b.Bootstrap())
	wantCode(t, "v2 has no name to check", testkit.Do(c, apiVersions(2, "", ""), kmsg.NewPtrApiVersionsResponse()).ErrorCode, 0)
}

// C004: minimum versions that old clients look at. (The old client itself runs
// in the conformance suite.)
func caseC004(t *testing.T, b broker) {
	c := testkit.Dial(t, b.Bootstrap())
	resp := testkit.Do(c, apiVersions(3, "kgo", "1.0"), kmsg.NewPtrApiVersionsResponse())
	mins := map[int16]int16{}
	for _, k := range resp.ApiKeys {
		mins[k.ApiKey] = k.MinVersion
	}
	want := map[int16]int16{0: 0, 1: 4, 2: 1, 8: 2, 9: 1, 11: 0, 19: 2, 20: 1, 23: 2, 32: 1}
	for key, m := range want {
		if got, ok := mins[key]; !ok || got != m {
			t.Errorf("minimum of %s is %d (listed: %v), want %d", kmsg.NameForKey(key), got, ok, m)
		}
	}
}

// C006: acks=0 is never answered; an error closes the connection.
func caseC006(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	c := testkit.Dial(t, b.Bootstrap())
	c.Send(produceRequest(9, 0, topic, batch(t, plain(), rec{value: "v"})))
	md := kmsg.NewPtrMetadataRequest()
	md.Version = 12
	md.Topics = []kmsg.MetadataRequestTopic{}
	// Do checks the correlation id, 2; the record becomes visible once durable.
	testkit.Do(c, md, kmsg.NewPtrMetadataResponse())
	for deadline := time.Now().Add(30 * time.Second); endOffset(t, c, topic) != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the record of acks=0 is not there after 30 s")
		}
	}

	c = testkit.Dial(t, b.Bootstrap())
	c.Send(produceRequest(9, 0, unique(t, "missing"), batch(t, plain(), rec{value: "v"})))
	c.WantClosed(testkit.ReadTimeout)
}

// C008: junk on the Kafka port is closed at once and costs nothing.
func caseC008(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	stop, failed := make(chan struct{}), make(chan error, 1)
	healthy := testkit.Dial(t, b.Bootstrap())
	go produceUntil(healthy, produceRequest(9, -1, topic, batch(t, plain(), rec{value: "v"})), stop, failed)
	before := rssBytes(b)
	junk := [][]byte{[]byte("GET / HTTP/1.1\r\n\r\n"), {0x16, 3, 1, 0}, {0xff, 0xff, 0xff, 0xff}, {0x06, 0x40, 0, 1}}
	var conns []*testkit.RawConn
	for i := range 200 {
		c := testkit.Dial(t, b.Bootstrap())
		c.Write(junk[i%len(junk)])
		conns = append(conns, c)
	}
	for _, c := range conns {
		c.WantClosed(testkit.ReadTimeout)
	}
	if rise := rssBytes(b) - before; rise > 20<<20 {
		t.Errorf("memory rose by %d MiB", rise>>20)
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Errorf("the healthy client was disturbed: %v", err)
	}
	// A frame of exactly socket.request.max.bytes is allowed: the broker waits for it.
	c := testkit.Dial(t, b.Bootstrap())
	c.Write([]byte{0x06, 0x40, 0, 0, 0, 18, 0, 0})
	_ = c.C.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	_, err := c.C.Read(make([]byte, 1))
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
		t.Errorf("a frame of 104857600 bytes is not waited for: %v", err)
	}
}

func produceUntil(c *testkit.RawConn, req kmsg.Request, stop chan struct{}, done chan error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for corr := int32(1000); ; corr++ {
		if _, err := c.C.Write(c.Frame(req, corr)); err != nil {
			done <- err
			return
		}
		frame, err := c.ReadFrame()
		if err != nil {
			done <- err
			return
		}
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		if err := resp.ReadFrom(frame[5:]); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			done <- fmt.Errorf("produce: %v, %+v", err, resp)
			return
		}
		select {
		case <-stop:
			done <- nil
			return
		case <-tick.C:
		}
	}
}

// rssBytes returns the resident memory of a Tidemark process; other brokers are
// not measured.
func rssBytes(b broker) int64 {
	s, ok := b.(*testkit.Server)
	if !ok {
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// wantBroker wants a node that Metadata lists too.
func wantBroker(t *testing.T, c *testkit.RawConn, id int32, host string, port int32) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	req.Topics = []kmsg.MetadataRequestTopic{}
	brokers := testkit.Do(c, req, kmsg.NewPtrMetadataResponse()).Brokers
	for _, n := range brokers {
		if n.NodeID == id && n.Host == host && n.Port == port {
			return
		}
	}
	t.Fatalf("coordinator %d at %s:%d is not among the brokers %+v", id, host, port, brokers)
}

// C010: FindCoordinator on a cluster that has never seen a group.
func caseC010(t *testing.T, b broker) {
	c := testkit.Dial(t, b.Bootstrap())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKeys = 4, []string{"g1", "g2"}
		resp := testkit.Do(c, req, kmsg.NewPtrFindCoordinatorResponse())
		wantEqual(t, "coordinators listed", len(resp.Coordinators), 2)
		settled := true
		for _, co := range resp.Coordinators {
			switch co.ErrorCode {
			case 15:
				settled = false
				if co.NodeID != -1 || co.Host != "" || co.Port != -1 {
					t.Fatalf("COORDINATOR_NOT_AVAILABLE with a node: %+v", co)
				}
			case 0:
				wantBroker(t, c, co.NodeID, co.Host, co.Port)
			default:
				t.Fatalf("unexpected answer: %+v", co)
			}
		}
		if settled {
			v3 := kmsg.NewPtrFindCoordinatorRequest()
			v3.Version, v3.CoordinatorKey = 3, "g1"
			old := testkit.Do(c, v3, kmsg.NewPtrFindCoordinatorResponse())
			wantCode(t, "v3", old.ErrorCode, 0)
			g1 := resp.Coordinators[0]
			wantEqual(t, "node of v3", fmt.Sprint(old.NodeID, old.Host, old.Port), fmt.Sprint(g1.NodeID, g1.Host, g1.Port))
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not settled after 20 s: %+v", resp.Coordinators)
		}
	}
}
