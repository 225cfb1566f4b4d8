package groups

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestMigration moves a running group from the classic protocol to KIP-848 and
// back, one member after the other: it is mixed in between, no record is missed,
// and its type follows (group.consumer.migration.policy is bidirectional).
func TestMigration(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, p peer) {
		ways := map[string][2]kind{"franz-go": {kgoKind("cooperative"), kgoKind("consumer")}}
		java := map[string]kind{}
		for _, k := range javaKinds(t) {
			java[k.name] = k
		}
		ways["java"] = [2]kind{java["java-eager"], java["java-consumer"]}
		python := map[string]kind{}
		for _, k := range pythonKinds(t) {
			python[k.name] = k
		}
		if len(python) > 0 {
			// Not from its cooperative assignor: that one leaves user data in
			// assignments, and brokers refuse to migrate what they would lose.
			ways["librdkafka"] = [2]kind{python["librdkafka-eager"], python["librdkafka-consumer"]}
		}
		for name, way := range ways {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				migrate(t, p, way[0], way[1])
			})
		}
	})
}

func migrate(t *testing.T, p peer, classic, consumer kind) {
	s := &scenario{t: t, p: p, topic: unique(t), group: unique(t), seen: newChecker()}
	adm := admin(t, p)
	createTopic(t, p, s.topic, partitions)
	f := startFeed(t, p, s.topic)
	s.k = classic
	members := min(3, 1+classic.rolls) // JVMs are dear
	for range members {
		s.add()
	}
	s.flowing("classic members")
	wantType(t, adm, s.group, "Classic")
	for _, step := range []struct {
		to   kind
		want string
	}{{consumer, "Consumer"}, {classic, "Classic"}} {
		s.k = step.to
		for range members {
			s.remove(0, (*process).leave)
			s.add()
			s.flowing("a member moved to " + step.to.name)
		}
		wantType(t, adm, s.group, step.want)
	}
	s.finish(f)
}

func wantType(t *testing.T, adm *kadm.Client, group, want string) {
	t.Helper()
	listed, err := adm.ListGroups(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := listed[group].GroupType; !strings.EqualFold(got, want) {
		t.Errorf("group %s is of type %q, want %q", group, got, want)
	}
}
