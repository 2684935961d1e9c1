#!/usr/bin/env bash
# Write the digest that the base image's tag has today into the Dockerfile: a release is built again from the same base.
# It needs Docker, and asks the image's registry.
set -euo pipefail
cd "$(dirname "$0")/.."

image=$(sed -n 's/^FROM \([^@ ]*\).*/\1/p' Dockerfile)
digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
if [[ ! $digest =~ ^sha256:[0-9a-f]{64}$ ]]; then
  echo "docker gives no digest for $image, but \`$digest\`: the Dockerfile stays as it is"
  exit 1
fi
sed -i "s|^FROM .*|FROM $image@$digest|" Dockerfile
echo "Dockerfile: FROM $image@$digest"
