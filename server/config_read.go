package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// faultsMax bounds how many faults are gathered before the reader gives up on the rest.
const faultsMax = 50

// configReader walks the syntax tree, so that each fault has its position and one does not hide the next.
type configReader struct {
	name, dir string
	faults    []Fault
	paths     []place // of the routes, in order
}

// field is one known field of a mapping, and what reads its value.
type field struct {
	name string
	read func(at place)
}

// place is a value in the text.
type place struct {
	path string // "routes[0].methods"
	key  ast.Node
	node ast.Node
}

// config reads the whole text.
func (r *configReader) config(text []byte) Config {
	file, err := parse(text)
	if err != nil {
		r.syntax(err)
		return Config{}
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil {
			docs = append(docs, d.Body)
		}
	}
	switch len(docs) {
	case 0:
		r.faults = append(r.faults, Fault{1, 1, "", "is empty; it needs routes"})
		return Config{}
	case 1:
	default:
		r.fault(place{node: docs[1]}, "a second document starts here; put everything into one")
	}

	var cfg Config
	seen := r.mapping(place{node: docs[0]}, "routes", []field{
		{"routes", func(at place) { cfg.Routes = r.routes(at) }},
		{"seal", func(at place) { cfg.Seal = r.seal(at) }},
	})
	if seen != nil && !seen["routes"] {
		r.fault(place{node: docs[0]}, "has no routes; without any there is nothing to serve")
	}
	if len(r.faults) == 0 {
		r.conflicts(cfg.Routes)
	}
	return cfg
}

// parse turns a panic of the parser into an error: a configuration never ends the process.
func parse(text []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("can't be read as YAML")
		}
	}()
	return parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
}

func (r *configReader) syntax(err error) {
	fault := Fault{1, 1, "", "is not YAML: " + err.Error()}
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) {
		fault.Problem = "is not YAML: " + syntax.Message
		if t := syntax.Token; t != nil && t.Position != nil {
			fault.Line, fault.Column = t.Position.Line, t.Position.Column
		}
	}
	r.faults = append(r.faults, fault)
}

// fault records one at the value, or at its key when it has none.
func (r *configReader) fault(at place, format string, args ...any) {
	if len(r.faults) > faultsMax {
		return
	}
	f := Fault{Line: 1, Column: 1, Field: at.path, Problem: fmt.Sprintf(format, args...)}
	if len(r.faults) == faultsMax {
		f.Field, f.Problem = "", "more faults follow; mend these first"
	}
	f.Line, f.Column = position(at)
	r.faults = append(r.faults, f)
}

func position(at place) (line, column int) {
	node := at.node
	if _, empty := node.(*ast.NullNode); (node == nil || empty) && at.key != nil {
		node = at.key
	}
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		node = m.Values[0].Key // its own token is the first colon
	}
	if node == nil {
		return 1, 1
	}
	if t := node.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line, t.Position.Column
	}
	return 1, 1
}

// mapping reads the fields of at and returns which were there; nil when it is no mapping at all.
func (r *configReader) mapping(at place, example string, fields []field) map[string]bool {
	var values []*ast.MappingValueNode
	switch m := at.node.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		r.fault(at, "must be a mapping, such as \"%s: ...\", and is %s", example, kind(at.node))
		return nil
	}
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		r.field(at, v, fields, seen)
	}
	return seen
}

func (r *configReader) field(at place, v *ast.MappingValueNode, fields []field, seen map[string]bool) {
	name := v.Key.GetToken().Value
	here := place{path: join(at.path, name), key: v.Key, node: v.Value}
	keyPlace := place{path: here.path, node: v.Key}
	if _, ok := v.Key.(*ast.StringNode); !ok {
		r.fault(keyPlace, "is no name of a field")
		return
	}
	if seen[name] {
		r.fault(keyPlace, "is there twice; keep one")
		return
	}
	for _, f := range fields {
		if f.name == name {
			seen[name] = true
			f.read(here)
			return
		}
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	if near := nearest(name, names); near != "" {
		r.fault(keyPlace, "is not a known field; did you mean %s?", near)
		return
	}
	r.fault(keyPlace, "is not a known field; known here: %s", strings.Join(names, ", "))
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// kind says what a node is, for a reader of the fault.
func kind(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "empty"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + n.GetToken().Value
	case *ast.BoolNode:
		return n.GetToken().Value
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias, which is not supported"
	case *ast.TagNode:
		return "tagged, which is not supported"
	default:
		return "something else"
	}
}
