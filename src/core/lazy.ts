/** Creates a value on first use and caches it. Some platforms forbid random numbers while a module loads. */
export function lazy<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
