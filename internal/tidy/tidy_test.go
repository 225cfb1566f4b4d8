package tidy

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	maxFunctionLines = 70
	maxFileLines     = 800
)

var loadOnce = sync.OnceValues(func() ([]*file, error) {
	base, err := root()
	if err != nil {
		return nil, err
	}
	return load(base)
})

func loadAll(t *testing.T) (string, []*file) {
	t.Helper()
	base, err := root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d Go files below %s: the walk is broken", len(files), base)
	}
	return base, files
}

// complain reports a broken rule unless the ratchet knows it, and strikes it off.
func complain(t *testing.T, seen map[string]bool, where, name, format string, args ...any) {
	t.Helper()
	key := where + ": " + name
	seen[key] = true
	if !ratchet[key] {
		t.Errorf("%s: %s", where, fmt.Sprintf(format, args...))
	}
}

func TestImportLayers(t *testing.T) {
	_, files := loadAll(t)
	for _, f := range files {
		if f.test {
			continue
		}
		if layerOf(f.dir) == unknown {
			t.Errorf("%s: the layer of %s is not known: add it to internal/tidy/layers.go", f.path, f.dir)
			continue
		}
		for _, imp := range f.imports() {
			if dir, ours := strings.CutPrefix(imp, module+"/"); ours {
				if reason := mayImport(f.dir, dir); reason != "" && dir != f.dir {
					t.Errorf("%s imports %s: %s", f.path, dir, reason)
				}
				continue
			}
			if reason := libraryReason(f, imp); reason != "" {
				t.Errorf("%s imports %s: %s", f.path, imp, reason)
			}
		}
	}
}

func libraryReason(f *file, imp string) string {
	l := layerOf(f.dir)
	first, _, _ := strings.Cut(imp, "/")
	if strings.Contains(first, ".") {
		allowed, limited := librariesOf[l]
		if limited && !slices.ContainsFunc(allowed, func(p string) bool { return imp == p || strings.HasPrefix(imp, p+"/") }) {
			return "this layer may not import this library"
		}
		return ""
	}
	if l != layer0 && l != layer1 || coreExceptions[f.dir][imp] != "" {
		return ""
	}
	for _, bad := range forbiddenInCores {
		if imp == bad || strings.HasPrefix(imp, bad+"/") && imp != "net/netip" {
			return "a pure core may not (no I/O, clock, lock, randomness, logging)"
		}
	}
	return ""
}

// TestCoresArePure: no goroutine and no clock where everything must replay.
func TestCoresArePure(t *testing.T) {
	_, files := loadAll(t)
	for _, f := range files {
		if l := layerOf(f.dir); f.test || l != layer0 && l != layer1 {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s:%d: a pure core may not start goroutines", f.path, f.line(n))
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok && id.Name == "time" && clockCalls[n.Sel.Name] {
					t.Errorf("%s:%d: a pure core may not call time.%s: take nowMs as an argument", f.path, f.line(n), n.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestFunctionAndFileLength(t *testing.T) {
	_, files := loadAll(t)
	seen := map[string]bool{}
	for _, f := range files {
		if f.generated {
			continue
		}
		if f.lines > maxFileLines {
			complain(t, seen, f.path, "file", "has %d lines, more than %d", f.lines, maxFileLines)
		}
		if f.test {
			continue
		}
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := f.fset.Position(fn.End()).Line - f.line(fn) + 1; n > maxFunctionLines {
				complain(t, seen, f.path, fn.Name.Name, "%s has %d lines, more than %d", fn.Name.Name, n, maxFunctionLines)
			}
		}
	}
	for key := range ratchet {
		if !seen[key] {
			t.Errorf("the ratchet still has %q, which is mended: strike it off", key)
		}
	}
}

// TestPackageDocs: every package says what it is for: in doc.go, or in its one
// file when it has no other, or in main.
func TestPackageDocs(t *testing.T) {
	_, files := loadAll(t)
	docs, packages, count := map[string]string{}, map[string]string{}, map[string]int{}
	for _, f := range files {
		if !f.test {
			count[f.dir]++
		}
	}
	for _, f := range files {
		if f.test {
			continue
		}
		packages[f.dir] = f.tree.Name.Name
		if f.tree.Doc != nil && (count[f.dir] == 1 || filepath.Base(f.path) == "doc.go" || f.tree.Name.Name == "main") {
			docs[f.dir] += f.tree.Doc.Text()
		}
	}
	for dir, name := range packages {
		doc := docs[dir]
		if doc == "" {
			t.Errorf("%s: package %s has no doc.go with a package comment", dir, name)
			continue
		}
		if name != "main" && !strings.HasPrefix(doc, "Package "+name+" ") {
			t.Errorf("%s: the package comment does not start with \"Package %s \"", dir, name)
		}
	}
}

// TestEnginesNameTheirSiblings: an engine imports only those other engines that
// its package comment, or siblings, names.
func TestEnginesNameTheirSiblings(t *testing.T) {
	_, files := loadAll(t)
	docs := map[string]string{}
	for _, f := range files {
		if f.tree.Doc != nil && !f.test {
			docs[f.dir] += f.tree.Doc.Text()
		}
	}
	reported := map[string]bool{}
	for _, f := range files {
		if f.test || layerOf(f.dir) != layer2 {
			continue
		}
		for _, imp := range f.imports() {
			dir, ours := strings.CutPrefix(imp, module+"/")
			if !ours || layerOf(dir) != layer2 || dir == "internal/vfs" || slices.Contains(siblings[f.dir], dir) || strings.Contains(docs[f.dir], path.Base(dir)) {
				continue
			}
			if pair := f.dir + " " + dir; !reported[pair] {
				reported[pair] = true
				t.Errorf("%s imports %s: name it in the package comment, with the reason", f.dir, dir)
			}
		}
	}
}

var vague = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared"}

func TestPackageNames(t *testing.T) {
	_, files := loadAll(t)
	for _, f := range files {
		if slices.Contains(vague, f.tree.Name.Name) {
			t.Errorf("%s: package %s says nothing about what it holds", f.path, f.tree.Name.Name)
		}
	}
}

// TestAssertions: plain testing and go-cmp; no assertion library.
func TestAssertions(t *testing.T) {
	_, files := loadAll(t)
	for _, f := range files {
		for _, imp := range f.imports() {
			if strings.HasPrefix(imp, "github.com/stretchr/testify") || strings.HasPrefix(imp, "github.com/onsi/") {
				t.Errorf("%s imports %s: use plain testing and go-cmp", f.path, imp)
			}
		}
	}
}

// machinePath finds paths that exist on one machine only, and folders beside
// the repository. The pieces are joined here so that this file passes its own test.
var machinePath = regexp.MustCompile(strings.Join([]string{
	`/wo` + `rk/(main|shared|contracts)`, `/ro` + `ot/`, `/ho` + `me/[a-z]+/`, `/tm` + `p/kafka-src`, `/tm` + `p/peers`, `\.\./sha` + `red`, `/Use` + `rs/[a-z]+/`,
}, "|"))

// textFiles are checked for wording, by extension or name.
var textFiles = []string{".go", ".md", ".sh", ".yml", ".yaml", ".mod", ".txtar", ".txt", ".toml", ".py", ".js", ".java", "Makefile", "run", "Dockerfile"}

func TestNothingRefersToOneMachine(t *testing.T) {
	base, _ := loadAll(t)
	err := filepath.WalkDir(base, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != base && (name == ".git" || name == "data" || name == "node_modules" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.ContainsFunc(textFiles, func(s string) bool { return name == s || strings.HasPrefix(s, ".") && strings.HasSuffix(name, s) }) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if m := machinePath.FindString(line); m != "" {
				rel, _ := filepath.Rel(base, path)
				t.Errorf("%s:%d: %q is a path of one machine", rel, i+1, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLicence(t *testing.T) {
	base, _ := loadAll(t)
	text, err := os.ReadFile(filepath.Join(base, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Apache License", "Version 2.0, January 2004", "END OF TERMS AND CONDITIONS"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("LICENSE lacks %q", want)
		}
	}
}

// TestFuzzTargetsAreFound: each Fuzz function is where scripts/fuzz.sh looks for it.
func TestFuzzTargetsAreFound(t *testing.T) {
	_, files := loadAll(t)
	n := 0
	for _, f := range files {
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Fuzz") || fn.Recv != nil {
				continue
			}
			n++
			if !f.test {
				t.Errorf("%s: %s is not in a _test.go file", f.path, fn.Name.Name)
			}
		}
	}
	if n == 0 {
		t.Error("no fuzz target in the whole module")
	}
}

// clockSeed is a generator that starts from the clock, or from nothing that can be repeated.
var clockSeed = regexp.MustCompile(`[sS]eed\w*\s*(:=|=)\s*(uint64\()?(time\.Now|rand\.U?[iI]nt)|rapid\.seed`)

// TestTheGateDrawsTheSameCases: make hands every property test the same seed, and
// no test has a seed of its own that changes from run to run.
func TestTheGateDrawsTheSameCases(t *testing.T) {
	base, files := loadAll(t)
	makefile, err := os.ReadFile(filepath.Join(base, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nSEED ?= 1\n", "\nexport RAPID_SEED := $(SEED)\n", "\nexport TESTKIT_SEED := $(SEED)\n"} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("Makefile lacks %q: a property test would draw other cases on every run and fail by chance", want)
		}
	}
	for _, f := range files {
		if f.dir == "internal/tidy" || seedExceptions[f.path] != "" {
			continue
		}
		if m := clockSeed.FindString(f.text); f.test && m != "" {
			t.Errorf("%s: %q: take testkit.Seed", f.path, m)
		}
		if slices.Contains(f.imports(), "testing/quick") {
			t.Errorf("%s imports testing/quick, whose seed nobody sets: use rapid", f.path)
		}
	}
}
