package configs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// Resource is what settings belong to. A broker resource with an empty name is
// the cluster-wide default.
type Resource struct {
	Type kmsg.ConfigResourceType
	Name string
}

// String names the resource for people.
func (r Resource) String() string {
	switch {
	case r.Type == kmsg.ConfigResourceTypeBroker && r.Name == "":
		return "cluster"
	case r.Type == kmsg.ConfigResourceTypeGroupConfig:
		return "group " + r.Name
	case r.Type == kmsg.ConfigResourceTypeClientMetrics:
		return "client metrics " + r.Name
	}
	return strings.ToLower(r.Type.String()) + " " + r.Name
}

// Entry is one setting as the cluster describes it.
type Entry struct {
	Name      string    `json:"name"`
	Value     *string   `json:"value"` // null: none, or secret
	Type      string    `json:"type"`
	Source    string    `json:"source"`
	ReadOnly  bool      `json:"read_only"`
	Sensitive bool      `json:"sensitive"`
	Doc       string    `json:"documentation,omitempty"`
	Synonyms  []Synonym `json:"synonyms"`
}

// Synonym is another name or layer that has a value for the setting.
type Synonym struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

// Text is the value for people.
func (e Entry) Text() string {
	switch {
	case e.Sensitive:
		return "(secret)"
	case e.Value == nil:
		return "(none)"
	}
	return *e.Value
}

// notInForce marks documentation of settings that the cluster stores and does
// not act on. Tidemark writes it; other clusters do not.
const notInForce = "Not in force here: "

// Notes warns about settings that were given and are not in force, or not for the
// value that they have ("Not in force here: VALUE: why"). Brokers say at their
// start what of their own file is not in force; a value is worth saying again
// where it reaches a topic.
func Notes(entries []Entry) []string {
	var notes []string
	for _, e := range entries {
		_, why, found := strings.Cut(e.Doc, notInForce)
		only, _, partly := strings.Cut(why, ": ")
		switch {
		case !found, e.Source == "DEFAULT_CONFIG", e.Source == "STATIC_BROKER_CONFIG" && !partly:
			continue
		case partly && !strings.Contains(e.Text(), only):
			continue
		}
		notes = append(notes, e.Name+" is set but not in force: "+strings.TrimSuffix(why, "."))
	}
	return notes
}

// Fetch asks for the settings of a resource: all, or only the named ones.
func Fetch(ctx context.Context, adm *app.Admin, r Resource, names ...string) ([]Entry, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = r.Type, r.Name
	if len(names) > 0 {
		res.ConfigNames = names // nil asks for all; not every cluster takes an empty list for that
	}
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, requestor(adm, r))
	if err != nil {
		return nil, refused(ctx, adm, err, "describe", r)
	}
	if len(resp.Resources) != 1 {
		return nil, app.Failed("describe %s: the cluster answered for %d resources", r, len(resp.Resources))
	}
	got := resp.Resources[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return nil, app.Explain(err, text(got.ErrorMessage), "describe %s", r)
	}
	var entries []Entry
	for _, c := range got.Configs {
		entries = append(entries, entryOf(c))
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// requestor sends broker requests to the broker they are about: only it knows.
func requestor(adm *app.Admin, r Resource) kmsg.Requestor {
	cl := adm.Raw
	if r.Type == kmsg.ConfigResourceTypeBroker && r.Name != "" {
		if id, err := strconv.ParseInt(r.Name, 10, 32); err == nil {
			return cl.Broker(int(id))
		}
	}
	return cl
}

// refused explains an error of a request; a broker that is not there is answered
// with those that are.
func refused(ctx context.Context, adm *app.Admin, err error, verb string, r Resource) error {
	if r.Type != kmsg.ConfigResourceTypeBroker || r.Name == "" {
		return app.Explain(err, "", "%s %s", verb, r)
	}
	brokers, listErr := adm.ListBrokers(ctx)
	if listErr != nil {
		return app.Explain(err, "", "%s %s", verb, r)
	}
	var ids []string
	for _, id := range brokers.NodeIDs() {
		ids = append(ids, strconv.Itoa(int(id)))
	}
	if slices.Contains(ids, r.Name) {
		return app.Explain(err, "", "%s %s", verb, r)
	}
	return app.Failed("%s %s: the cluster has no such broker", verb, r).Fix("use one of --broker %s, or --cluster for all of them", strings.Join(ids, ", "))
}

func entryOf(c kmsg.DescribeConfigsResponseResourceConfig) Entry {
	e := Entry{
		Name: c.Name, Value: c.Value, Type: strings.ToLower(c.ConfigType.String()), Source: c.Source.String(),
		ReadOnly: c.ReadOnly, Sensitive: c.IsSensitive, Doc: text(c.Documentation), Synonyms: []Synonym{},
	}
	for _, s := range c.ConfigSynonyms {
		e.Synonyms = append(e.Synonyms, Synonym{Name: s.Name, Value: s.Value, Source: s.Source.String()})
	}
	return e
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Alter sets and unsets settings of a resource in one atomic request and says
// what was done.
func Alter(ctx context.Context, a *app.App, r Resource, set map[string]string, unset []string) error {
	adm, err := a.Admin(ctx)
	if err != nil {
		return err
	}
	defer adm.Close()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = r.Type, r.Name
	for _, k := range sorted(set) {
		v := set[k]
		res.Configs = append(res.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: k, Op: kmsg.IncrementalAlterConfigOpSet, Value: &v})
	}
	for _, k := range unset {
		res.Configs = append(res.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: k, Op: kmsg.IncrementalAlterConfigOpDelete})
	}
	req.Resources = append(req.Resources, res)
	reqCtx, cancel := a.Request(ctx)
	defer cancel()
	resp, err := req.RequestWith(reqCtx, requestor(adm, r))
	if err != nil {
		return refused(reqCtx, adm, err, "change", r)
	}
	for _, got := range resp.Resources {
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			return unchanged(err, text(got.ErrorMessage), r)
		}
	}
	return report(a, r, set, unset)
}

// unchanged explains why settings were not changed.
func unchanged(err error, message string, r Resource) error {
	e := app.Explain(err, message, "change %s", r)
	if r.Type == kmsg.ConfigResourceTypeBroker && errors.Is(err, kerr.InvalidRequest) {
		return e.Fix("a setting that changes with a restart goes into the server's configuration file; \"tidemark config describe --broker ID --all\" says which do")
	}
	return e
}

func report(a *app.App, r Resource, set map[string]string, unset []string) error {
	if a.JSON() {
		if unset == nil {
			unset = []string{}
		}
		return a.Emit(map[string]any{"resource": r.String(), "set": set, "unset": unset})
	}
	for _, k := range sorted(set) {
		a.Printf("%s: %s=%s\n", r, k, set[k])
	}
	for _, k := range unset {
		a.Printf("%s: %s is unset\n", r, k)
	}
	return nil
}

func sorted(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
