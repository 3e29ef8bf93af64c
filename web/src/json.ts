// Values that came from outside: a recording, a server, a client. Each is read through these, so that a member which is absent or
// has another type is a default, and never an error.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

export const isObject = (value: unknown): value is JsonObject => typeof value === "object" && value !== null && !Array.isArray(value);
export const object = (value: unknown): JsonObject => (isObject(value) ? value : {});
export const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
export const text = (value: unknown, otherwise = ""): string => (typeof value === "string" ? value : otherwise);
export const number = (value: unknown, otherwise = 0): number => (typeof value === "number" && Number.isFinite(value) ? value : otherwise);
export const maybeNumber = (value: unknown): number | undefined => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

export function parsed(source: string): Json | undefined {
  try {
    return JSON.parse(source) as Json;
  } catch {
    return undefined;
  }
}
