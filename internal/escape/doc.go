// Package escape makes text of unknown origin harmless to show to a person: it writes out what a
// terminal would act on or what a reader could not see.
//
// It knows no terminal and no package of polis. Its callers choose which characters are shown. What a
// person answers must be shown without ambiguity: package approval escapes it, reversibly.
package escape
