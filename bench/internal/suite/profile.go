package suite

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-io/tidemark/bench/internal/peer"
)

// profile takes a CPU profile of a Tidemark node while a measure runs, when the
// run was asked for profiles; the measure is the slower for it. The result ends
// it: call it when the measure is over.
func (r *Run) profile(p peer.Peer, name string) (wait func()) {
	addr, ok := peer.Admin(p)
	if r.o.Profiles == "" || !ok {
		return func() {}
	}
	file := strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(p.Name() + "-" + name + ".pprof")
	done := make(chan error, 1)
	go func() {
		done <- fetchProfile("http://"+addr+"/debug/pprof/profile?seconds=1", filepath.Join(r.o.Profiles, file))
	}()
	return func() {
		if err := <-done; err != nil {
			r.fail("profile of "+p.Name(), err)
		}
	}
}

func fetchProfile(url, file string) error {
	resp, err := http.Get(url) //nolint:gosec // our own child on loopback
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}
