package consumer

import (
	"regexp"
	"slices"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// Which topics an expression matches is found out beside the shard, because it
// may take long: a request asks for it (Config.Resolve), the result comes back
// as an event of its own (RegexResolved), and members hear of it with a later
// heartbeat (GroupMetadataManager.maybeUpdateRegularExpressions).

const (
	// regexMinRefreshMs is the shortest time between two looks at all
	// expressions of a group (REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
	regexMinRefreshMs = 10_000
	// regexSoonMs is when a member is to be heard of again while its expression
	// is looked at: it would wait a whole interval for its partitions.
	regexSoonMs = 200
)

// RegexTask is a look at all expressions of a group. Resolve may run anywhere,
// while nobody else uses the task.
type RegexTask struct {
	Group       string
	Expressions []string // ascending
	// Topics is how many were looked at.
	Topics int

	metadata  Metadata
	startedMs int64
	found     map[string]resolved
}

// Resolve finds the topics of each expression; the same walk serves them all.
// It gives up, with false, when stop says so.
func (t *RegexTask) Resolve(stop func() bool) bool {
	compiled := make([]*regexp.Regexp, len(t.Expressions))
	topics := make([][]string, len(t.Expressions))
	for i, e := range t.Expressions {
		compiled[i], _ = compile(e) // was checked when it came; a newer syntax matches nothing
		topics[i] = []string{}
	}
	for name := range t.metadata.Names() {
		if stop() {
			return false
		}
		t.Topics++
		for i, re := range compiled {
			if re != nil && re.MatchString(name) {
				topics[i] = append(topics[i], name)
			}
		}
	}
	t.found = map[string]resolved{}
	for i, e := range t.Expressions {
		t.found[e] = resolved{topics: topics[i], version: t.metadata.Version(), timestampMs: t.startedMs}
	}
	return true
}

// CheckRegex says what is wrong with an expression; nil when nothing is. Large
// ones take long.
func CheckRegex(expression string) error {
	if _, err := compile(expression); err != nil {
		return kerrors.New(kerrors.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %s.", expression, err)
	}
	return nil
}

// compile reads an expression in RE2 syntax, which is matched against whole
// topic names.
func compile(expression string) (*regexp.Regexp, error) {
	// On its own first, so that "a)|(b" is not made whole by the anchors.
	if _, err := regexp.Compile(expression); err != nil {
		return nil, err
	}
	return regexp.Compile(`^(?:` + expression + `)$`)
}

func (g *Group) sortedRegexes() []string {
	if g.regexes.Len() == 0 {
		return nil // of most groups
	}
	var out []string
	for r := range g.regexes.All(latest) {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

// changeRegex handles a member's expression: an old one that nobody uses any
// more goes, a new one is looked at. changed says that it is another one, known
// that it is also known what the member may read now.
func (c *change) changeRegex(invalid error) (changed, known bool, err error) {
	before, after := "", c.member.regex()
	if c.old != nil {
		before = c.old.regex()
	}
	fresh := false
	if before != after {
		changed = true
		if users, _ := c.g.byRegex.Get(before, latest); before != "" && users == 1 {
			c.write(c.g.tombstone(recordschema.ConsumerGroupRegularExpressionType, before))
			c.regexes[before] = nil
		}
		users, _ := c.g.byRegex.Get(after, latest)
		switch {
		case after == "":
			known = true
		case users > 0:
			_, known = c.resolution(after)
		case invalid != nil:
			return false, false, invalid
		default:
			fresh = true
		}
	}
	c.resolveRegexes(before, after, fresh)
	return changed, known, nil
}

// resolveRegexes has the group's expressions looked at when there is a new one,
// when topics have come since, or after a long time.
func (c *change) resolveRegexes(before, after string, fresh bool) {
	g := c.g
	if !fresh && g.byRegex.Len() == 0 || g.env.resolving[g.id] != nil {
		return
	}
	due := fresh
	if known := g.sortedRegexes(); len(known) > 0 {
		last, _ := g.regexes.Get(known[0], latest)
		since := c.now.WallMs - last.timestampMs
		if since <= regexMinRefreshMs {
			return
		}
		due = due || last.version < g.env.Metadata.Version() || since > g.env.Config.RegexRefreshMs
	}
	expressions := g.subscribedRegexes(before, after)
	if len(expressions) == 0 || !due && len(expressions) == g.regexes.Len() {
		return
	}
	t := &RegexTask{Group: g.id, Expressions: expressions, metadata: g.env.Metadata, startedMs: c.now.WallMs}
	if g.env.resolving == nil {
		g.env.resolving = map[string]*RegexTask{}
	}
	g.env.resolving[g.id] = t
	g.env.Config.Resolve(t)
}

// subscribedRegexes are the expressions that members have once one of them has
// changed its own, ascending.
func (g *Group) subscribedRegexes(before, after string) []string {
	users := map[string]int{}
	for e, n := range g.byRegex.All(latest) {
		users[e] = n
	}
	users[before]--
	users[after]++
	delete(users, "")
	var out []string
	for e, n := range users {
		if n > 0 {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out
}

// resolvingFor reports that a member waits for a look that is under way.
func (g *Group) resolvingFor(m *Member) bool {
	if m.regex() == "" || g.env.resolving[g.id] == nil {
		return false
	}
	_, known := g.regexes.Get(m.regex(), latest)
	return !known
}

// Resolved ends a look; false when it is not this shard's: the shard was loaded
// again meanwhile.
func (e *Env) Resolved(t *RegexTask) bool {
	if e.resolving[t.Group] != t {
		return false
	}
	delete(e.resolving, t.Group)
	return true
}

// RegexResolved takes the result of a look (handleRegularExpressionsResult).
func (g *Group) RegexResolved(now coordinator.Now, t *RegexTask) coordinator.Output {
	c := &change{g: g, now: now, regexes: map[string]*resolved{}}
	rematched := false
	for _, e := range t.Expressions {
		if users, _ := g.byRegex.Get(e, latest); users == 0 {
			continue // nobody has it any more, or what brought it could not be written
		}
		r := t.found[e]
		old, _ := g.regexes.Get(e, latest)
		rematched = rematched || !slices.Equal(old.topics, r.topics)
		c.regexes[e] = &r
		c.write(g.regexRecord(e, r))
	}
	if len(c.out.Records) > 0 {
		c.bump(rematched)
	}
	return c.out
}
