package consumer

import "fmt"

// Dump is the whole state that the log makes, in a form that can be compared.
func (g *Group) Dump(asOf int64) map[string]string {
	out := map[string]string{}
	put := func(k string, v any) { out[k] = fmt.Sprint(v) }
	if m, ok := g.meta.Get(struct{}{}, asOf); ok {
		put("meta", m)
	}
	if m, ok := g.targetMeta.Get(struct{}{}, asOf); ok {
		put("target", m)
	}
	for id, m := range g.members.All(asOf) {
		put("member/"+id, fmt.Sprint(m.Topics, m.regex(), m.Epoch, m.PrevEpoch, m.State, m.Assigned, m.Revoking, m.UsesClassic()))
	}
	for id, a := range g.target.All(asOf) {
		put("target/"+id, a)
	}
	for e, r := range g.regexes.All(asOf) {
		put("regex/"+e, r)
	}
	for u, owner := range g.owners.All(asOf) {
		put(fmt.Sprint("owner/", u), owner)
	}
	for i, id := range g.static.All(asOf) {
		put("static/"+i, id)
	}
	for k, n := range g.byTopic.All(asOf) {
		put("topic/"+k, n)
	}
	for k, n := range g.byRegex.All(asOf) {
		put("users/"+k, n)
	}
	for k, n := range g.byChoice.All(asOf) {
		put("assignor/"+k, n)
	}
	for k, n := range g.protocols.All(asOf) {
		put("protocol/"+k, n)
	}
	return out
}
