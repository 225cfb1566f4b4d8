package suite

import (
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
)

// fetchTLS is P2 over TLS, on brokers of their own: a second listener would show
// in the memory and the start of the others.
func (r *Run) fetchTLS() error {
	r.down()
	defer r.down()
	var ready []fetched
	for _, p := range r.brokers {
		if p.Name() == peer.Strict {
			continue // reading is the same
		}
		s, ok, err := peer.WithTLS(p)
		if !ok {
			continue
		}
		var f fetched
		if err == nil {
			f, err = r.fillTLS(s)
		}
		if err != nil {
			r.fail("P2 over TLS, start of "+p.Name(), err)
			continue
		}
		ready = append(ready, f)
	}
	settle()
	r.fetchRounds(ready, "P2 over TLS", "TLS")
	return nil
}

// fillTLS starts a broker, warms it, its TLS too, and loads a topic. What was
// negotiated stands with the settings.
func (r *Run) fillTLS(p peer.Peer) (fetched, error) {
	if err := r.startWarm(p); err != nil {
		return fetched{}, err
	}
	r.running = append(r.running, p)
	f, err := r.fill(p)
	if err != nil {
		return f, err
	}
	return f, r.warmTLS(f)
}

func (r *Run) warmTLS(f fetched) error {
	addr, config, _ := peer.TLS(f.p)
	c, suite, err := load.DialTLS(addr, config)
	if err != nil {
		return err
	}
	c.Close()
	r.Out.Settings[f.p.Name()+" for TLS"] = []string{"a second listener with a certificate of ECDSA P-256: " + suite}
	tries := 16
	if r.o.Quick {
		tries = 8
	}
	// A virtual machine encrypts many times slower before it has compiled its
	// ciphers, and is in no hurry to begin: only two tries without gain are an end.
	for best, idle := 0.0, 0; tries > 0 && idle < 2; tries-- {
		got, err := f.drain(1<<20, 2*time.Second)
		if err != nil {
			return err
		}
		idle++
		if rate := float64(got.Bytes) / got.Took.Seconds(); rate > 1.1*best {
			best, idle = rate, 0
		}
	}
	return nil
}
