#!/usr/bin/env bash
# Whether the commit that is checked out may be published: no placeholder is left, it is on main, and the workflow `ci`
# has passed for it.
set -euo pipefail

commit=$(git rev-parse HEAD)
left=$(
  git grep -nE 'OWNER(/pytest-tfperf|\.github\.io)' || true
  git grep -nE '"(AUTHOR|MAINTAINER)|MAINTAINER@' pyproject.toml || true
  git grep -nE '^FROM ' Dockerfile | grep -vE '@sha256:[0-9a-f]{64}$' || true
)
if [ -n "$left" ]; then
  echo "$left"
  echo "these lines have placeholders, or a base image without its digest: nothing is published. CONTRIBUTING.md says" \
    "how they are replaced"
  exit 1
fi
if ! git merge-base --is-ancestor "$commit" origin/main; then
  echo "$commit is not on main: nothing is published. Merge it first, and tag what main then has"
  exit 1
fi
passed=$(gh run list --repo "$GITHUB_REPOSITORY" --workflow ci.yml --branch main --commit "$commit" --status success \
  --json databaseId --jq length)
if [ "$passed" = 0 ]; then
  echo "the workflow ci has not passed for $commit on main: nothing is published. Once it is green, run this job again"
  exit 1
fi
